"""Scripts that tune the model of a published row: full tuning, LoRA and DPO.

Each is a recipe of its own under ``matrices/recipes/variants``, with the facts that its script
states; the row stays the published thing, with its status and its cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from certify.recipes.poc import Listed
from matrices import files

if TYPE_CHECKING:
    from certify.recipes.load import Recipe


@dataclass(frozen=True)
class Variant(Listed):
    """One line of ``matrices/variants.tsv``.

    stage: tune, lora or dpo; row: the published row of the same model whose length is nearest;
    product is empty where the script's name states none. Lengths in tokens.
    """

    id: str
    stage: str
    row: str
    backend: str
    product: str
    cluster: str
    seq_length: str
    branch: str
    path: str

    @property
    def path_id(self) -> str:
        """The name of the recipe file under ``matrices/recipes``."""
        return f"variants/{self.id}"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": "variant",
            "stage": self.stage,
            "row": self.row,
            "backend": self.backend,
            "product": self.product or None,
            "cluster": self.cluster,
            "seq_length": int(self.seq_length),
            "branch": self.branch,
            "path": self.path,
        }


@lru_cache(maxsize=1)
def list_variants() -> tuple[Variant, ...]:
    """All variants, by id."""
    return tuple(Variant(**fields) for fields in files.read_tsv("variants.tsv"))


@lru_cache(maxsize=1)
def _by_place() -> dict[tuple[str, str], Variant]:
    return {(one.branch, one.path): one for one in list_variants()}


def find_variant(name: str) -> Variant | None:
    """The variant with exactly this id."""
    return next((one for one in list_variants() if one.id == name), None)


def variants_of(recipe: Recipe) -> list[Variant]:
    """The variants whose scripts a row's recipe names, in its order: full tuning, LoRA, DPO.

    Rows of one model that differ in length share them.
    """
    folder = recipe.source.path.rpartition("/")[0]
    named = recipe.raw.get("variants", {})
    places = [
        (recipe.source.branch or "", f"{folder}/{name}")
        for stage in ("tune", "lora", "dpo")
        for name in named.get(stage, ())
    ]
    return [_by_place()[place] for place in places if place in _by_place()]
