"""What an importer returns: a recipe with the line every value came from, or a refusal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from certify.recipes.importers.values import Origin

if TYPE_CHECKING:
    from certify.recipes.importers.launch import Launch
    from certify.recipes.importers.options import Options
    from certify.recipes.importers.shell_facts import ShellScript

_PRODUCT = re.compile(r"(?:^|[_\-.])A([235])(?:[_\-.]|$)")
_STAGE_WORDS = {"lora": "lora", "qlora": "lora", "dpo": "dpo"}


@dataclass
class Imported:
    """One file that was read.

    raw: the recipe (schema certify.recipe/1), None when refused says why there is none.
    origins: recipe key -> where it is stated. script, launch, options: what lint looks at.
    """

    path: str
    raw: dict[str, Any] | None = None
    refused: str | None = None
    origins: dict[str, Origin] = field(default_factory=dict)
    script: ShellScript | None = None
    launch: Launch | None = None
    options: Options | None = None
    problems: list[Problem] = field(default_factory=list)

    def origin(self, key: str) -> Origin:
        """Where a recipe key is stated, else the launch command, else the first line."""
        if key in self.origins:
            return self.origins[key]
        if self.launch is not None:
            return self.launch.entry.origin
        return Origin(self.path, 1)


@dataclass(frozen=True)
class Problem:
    """Something an importer met that lint reports: the rule, what was found, and where."""

    rule: str
    found: str
    origin: Origin


def put(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key of nested tables."""
    *sections, last = key.split(".")
    for section in sections:
        raw = raw.setdefault(section, {})
    raw[last] = value


def get(raw: dict[str, Any], key: str) -> Any:
    """A dotted key of nested tables, None where it is absent."""
    value: Any = raw
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def scalar(text: str) -> int | str:
    """Environment values: digits are numbers, everything else is text."""
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else text


def script_id(path: str) -> str:
    """An id from a file name: lower case, a point between digits written ``p``."""
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower()
    stem = re.sub(r"(?<=\d)\.(?=\d)", "p", stem)
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-") or "script"


def product_of(path: str) -> str | None:
    """The product that a file name ends with (A2, A3, A5), None where it names none."""
    found = _PRODUCT.findall(path.rsplit("/", 1)[-1])
    return f"A{found[-1]}" if found else None


def product_hint(npus_per_node: int | None) -> str | None:
    """The product that a node of so many NPUs suggests."""
    return {8: "A2", 16: "A3"}.get(npus_per_node or 0)


def stage_of(path: str, entry: str | None) -> str:
    """pretrain, tune, lora or dpo: by the words of the file name, else by the entry."""
    words = re.split(r"[^a-z0-9]+", path.rsplit("/", 1)[-1].lower())
    for word, stage in _STAGE_WORDS.items():
        if word in words:
            return stage
    if "tune" in words or "finetune" in words or entry == "posttrain_gpt.py":
        return "tune"
    return "pretrain"
