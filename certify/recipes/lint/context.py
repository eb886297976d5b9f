"""What the rules look at: a recipe, and where there is one, the script it was read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from certify.recipes.importers.base import Imported, get

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from certify.recipes.importers.values import Origin
    from certify.recipes.rows import Row


class Hit(NamedTuple):
    """A rule that is broken: at is a recipe key, or the place itself."""

    rule: str
    found: str
    at: str | Origin = ""


@dataclass
class Context:
    """raw: the recipe; path: what is reported as file; locate: recipe key -> place.

    imported is None for our own recipe files; row is the published row, for those of a row.
    """

    raw: Mapping[str, Any]
    path: str
    locate: Callable[[str], Origin]
    imported: Imported | None = None
    row: Row | None = None
    flags: frozenset[str] = field(default_factory=frozenset)

    def get(self, key: str) -> Any:
        """A dotted recipe key, None where the script states nothing."""
        return get(dict(self.raw), key)

    def number(self, key: str, default: int = 1) -> int:
        """A whole number with a default for what is not stated. What counts from one is never
        less here: `below_one` reports it, and everything else can divide by it."""
        value = self.get(key)
        if not isinstance(value, (int, float)):
            return default
        return max(int(value), min(default, 1))

    def below_one(self, keys: tuple[str, ...]) -> list[tuple[str, int]]:
        """(key, value) of sizes that are stated and below 1."""
        found = [(key, self.get(key)) for key in keys]
        return [(key, value) for key, value in found if isinstance(value, int) and value < 1]

    def has(self, flag: str) -> bool:
        """Whether the script passes this option (name without dashes)."""
        return flag in self.flags

    @property
    def megatron(self) -> bool:
        return self.raw["backend"] in ("mcore", "legacy", "mindspore")

    @property
    def fsdp2(self) -> bool:
        return bool(self.raw["backend"] == "fsdp2")

    @property
    def moe(self) -> bool:
        return self.get("moe.experts") is not None

    @property
    def script_name(self) -> str:
        """File name of the script."""
        path: str = self.raw["source"]["path"]
        return path.rsplit("/", 1)[-1]


def flags_of(raw: Mapping[str, Any], imported: Imported | None) -> frozenset[str]:
    """Names of all options of a script, as far as the recipe keeps them."""
    names = set(raw.get("optimisations", ())) | set(raw.get("optimisation_values", ()))
    names |= set(raw.get("other_options", ()))
    if imported is not None and imported.options is not None:
        names |= {option.name[2:] for option in imported.options.given}
    return frozenset(names)
