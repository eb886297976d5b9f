"""Read a configuration: every key known, of its type, and none against another."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.configuration.contradictions import CONTRADICTIONS
from certify.recipes.importers.base import Imported
from certify.recipes.importers.fsdp2 import Given, import_document
from certify.recipes.importers.fsdp2_arguments import arguments, convert
from certify.recipes.importers.text import read_source
from certify.recipes.lint import lint_imported
from certify.recipes.lint.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUFFIXES = (".yaml", ".yml")
SECTIONS = ("model", "data", "parallel", "training", "optimization")
_REQUIRED = "REQUIRED"
_OVERRIDE = re.compile(r"(?:--)?([A-Za-z_]+\.[A-Za-z_0-9]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Configuration:
    """A configuration that can be run.

    values: ``section.name`` -> converted value, for what was given; places: where each was given
    (``file:line``); raw: the recipe that the importer made of it; sha256: of the YAML's text.
    """

    path: str
    values: dict[str, Any]
    places: dict[str, str]
    raw: dict[str, Any]
    sha256: str
    overrides: tuple[str, ...]

    def value(self, name: str) -> Any:
        """The value given, or the backend's own default."""
        return self.values[name] if name in self.values else defaults()[name]

    def place(self, name: str) -> str:
        """Where a key was given, the file otherwise."""
        return self.places.get(name, self.path)


def is_configuration(word: str) -> bool:
    """Whether a word of the command line means a YAML and neither a recipe nor a folder."""
    return word.lower().endswith(SUFFIXES)


@lru_cache(maxsize=1)
def defaults() -> dict[str, Any]:
    """The backend's defaults by ``section.name``; None for what has none."""
    return {
        name: None if one.default == _REQUIRED else ast.literal_eval(one.default)
        for name, one in arguments().items()
    }


def read_configuration(path: Path, overrides: Sequence[str] = ()) -> Configuration:
    """Read a YAML and what overrides it (``section.name=value``, dashes allowed).

    Raises UsageError, naming file and line, for a key that the backend does not know, a value of
    another type or outside its choices, a key given twice, and keys that exclude each other.
    """
    for word in overrides:
        if _OVERRIDE.fullmatch(word) is None:
            raise UsageError(
                f"{word!r} overrides nothing",
                where="certify run",
                expected="section.name=value",
                hint="certify run CONFIG.yaml training.lr=2e-5",
            )
    text = read_source(path)
    imported = Imported(str(path))
    given = import_document(imported, text, tuple(overrides))
    _refuse_problems(imported, given)
    values = {name: convert(arguments()[name], one.value) for name, one in given.items()}
    places = {name: f"{one.origin.file}:{one.origin.line}" for name, one in given.items()}
    assert imported.raw is not None
    found = Configuration(
        path=str(path),
        values=values,
        places=places,
        raw=imported.raw,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        overrides=tuple(overrides),
    )
    _refuse_contradictions(found)
    _refuse_findings(imported)
    return found


def _more(count: int) -> str:
    return f" (and {count - 1} more errors)" if count > 1 else ""


def _refuse_problems(imported: Imported, given: dict[str, Given]) -> None:
    """What the importer met: the first one by line, with what was probably meant."""
    found = sorted(imported.problems, key=lambda p: (p.origin.file, p.origin.line))
    if not found:
        return
    problem = found[0]
    where = f"{problem.origin.file}:{problem.origin.line}"
    more = _more(len(found))
    named = [n for n, one in given.items() if one.origin == problem.origin]
    name = named[0] if named else problem.found.split(" ", 1)[0]
    if problem.rule != "F05":
        title = RULES[problem.rule].title.split(":", 1)[0]
        raise UsageError(f"{title}: {problem.found}{more}", where=where)
    section = name.partition(".")[0]
    if section in SECTIONS and section == name:
        raise UsageError(
            f"{section} is no section but a single value{more}",
            where=where,
            expected="keys below it, indented",
        )
    raise UsageError(f"unknown key {name!r}{more}", where=where, expected=_near(name))


def _near(name: str) -> str:
    """What a key was probably meant to be."""
    section, _, short = name.partition(".")
    if section not in (*SECTIONS, "inference"):
        near = get_close_matches(section, SECTIONS, n=1)
        return f"section {near[0]!r}?" if near else f"a section of {', '.join(SECTIONS)}"
    elsewhere = [known for known in arguments() if known.partition(".")[2] == short]
    inside = [known for known in arguments() if known.startswith(f"{section}.")]
    near = elsewhere or get_close_matches(name, inside, n=3, cutoff=0.7)
    near = near or get_close_matches(name, list(arguments()), n=3, cutoff=0.6)
    if near:
        return " or ".join(repr(one) for one in near) + "?"
    return f"one of {', '.join(known.partition('.')[2] for known in inside)}"


def _refuse_contradictions(found: Configuration) -> None:
    for rule in CONTRADICTIONS:
        if not rule.holds(found.value):
            given = [name for name in rule.names if name in found.places]
            shown = ", ".join(f"{name} {found.value(name)!r}" for name in rule.names)
            where = found.places[given[-1]] if given else found.path
            raise UsageError(shown, where=where, expected=rule.expected)


def _refuse_findings(imported: Imported) -> None:
    """What lint calls an error; its warnings are what `certify recipes lint` is for."""
    found = [finding for finding in lint_imported(imported) if finding.severity == "error"]
    if found:
        first = found[0]
        raise UsageError(
            f"{first.title}: {first.found}{_more(len(found))}",
            where=f"{first.file}:{first.line}",
            hint=f"certify recipes lint {imported.path}",
        )
