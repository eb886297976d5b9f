"""Upstream's performance and accuracy scripts (tests/poc): recipes of their own kind.

Their settings serve measurements: routing is fixed in most, so that their loss means nothing,
and those of 8 or 64 devices are cut-down shapes of a larger model: the named `reduced` scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from matrices import files

if TYPE_CHECKING:
    from collections.abc import Mapping


class Listed:
    """What a line of a table of scripts can be asked; subclasses hold the columns."""

    id: str
    row: str

    @property
    def path_id(self) -> str:
        """The name of the recipe file under ``matrices/recipes``."""
        raise NotImplementedError

    def fits(self, wanted: Mapping[str, str]) -> bool:
        """Whether the columns are the wanted ones and id or row hold the model's name."""
        for key, value in wanted.items():
            if key == "model":
                part = value.lower().replace(".", "p").replace(" ", "-")
                if part not in self.id and part not in self.row:
                    return False
            elif getattr(self, key) != value:
                return False
        return True

    def cells(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """The named columns for a table, a hyphen where one is empty."""
        return tuple(getattr(self, column) or "-" for column in columns)


@dataclass(frozen=True)
class PocScript(Listed):
    """One line of ``matrices/poc.tsv``.

    row: the id of the published row it belongs to, empty for a model that is not listed.
    scale: ``full``, or ``reduced-8`` and ``reduced-64`` for cut-down shapes.
    """

    id: str
    kind: str
    row: str
    scale: str
    backend: str
    product: str
    cluster: str
    seq_length: str
    fixed_routing: str
    path: str

    @property
    def path_id(self) -> str:
        """The name of the recipe file under ``matrices/recipes``."""
        return f"poc/{self.id}"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "row": self.row or None,
            "scale": self.scale,
            "backend": self.backend,
            "product": self.product or None,
            "cluster": self.cluster,
            "seq_length": int(self.seq_length),
            "fixed_routing": self.fixed_routing == "yes",
            "path": self.path,
        }


@lru_cache(maxsize=1)
def _scripts() -> tuple[PocScript, ...]:
    return tuple(PocScript(**fields) for fields in files.read_tsv("poc.tsv"))


def list_scripts(kind: str | None = None) -> list[PocScript]:
    """All scripts, or those of one kind (performance, accuracy)."""
    return [script for script in _scripts() if kind in (None, script.kind)]


def find_script(name: str) -> PocScript | None:
    """The script with exactly this id."""
    return next((script for script in _scripts() if script.id == name), None)


def scripts_of(row_id: str) -> list[PocScript]:
    """The scripts that measure the model of a row."""
    return [script for script in _scripts() if script.row == row_id]
