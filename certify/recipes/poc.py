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


@dataclass(frozen=True)
class PocScript:
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

    def fits(self, wanted: Mapping[str, str]) -> bool:
        """Whether backend, product and cluster are the wanted ones and the id holds the model."""
        for key, value in wanted.items():
            if key == "model":
                if value.lower() not in self.id and value.lower() not in self.row:
                    return False
            elif getattr(self, key) != value:
                return False
        return True

    def cells(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(getattr(self, column) or "-" for column in columns)

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
