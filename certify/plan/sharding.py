"""How fully_shard divides tensors: what one rank stores, and what a group gathers.

A tensor is cut along dimension 0 (routed experts: along 1, after expert parallelism has divided
dimension 0) into equal pieces, the last ones padded; rank 0 holds a full piece. This is the rule
of torch.distributed.fsdp.fully_shard, and rank 0 is the fullest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.plan.architecture import Architecture, Layer, Weight
    from certify.plan.layout import Fsdp2Layout


@dataclass(frozen=True)
class Group:
    """Parameters that are gathered and reduced together. ranks: those that share them;
    local: elements that one of them stores; kind: layer, experts, embedding, head or root."""

    kind: str
    ranks: int
    local: int

    @property
    def whole(self) -> int:
        """Elements of the gathered group, padding included."""
        return self.local * self.ranks


def _ceil(value: int, parts: int) -> int:
    return -(-value // parts)


def piece(weight: Weight, layout: Fsdp2Layout) -> int:
    """Elements of a weight on one rank, without regard to ignored modules."""
    if weight.part == "expert" and layout.ep > 1:
        first, second, *rest = weight.shape
        return first // layout.ep * _ceil(second, layout.ep_fsdp) * prod(rest)
    return _ceil(weight.shape[0], layout.fsdp) * prod(weight.shape[1:])


def is_ignored(weight: Weight, patterns: Iterable[str]) -> bool:
    """Whether a module pattern of the recipe keeps this weight of a layer whole."""
    name = f"model.layers.0.{weight.name}"
    for pattern in patterns:
        parts = [re.escape(part) for part in pattern.split("{*}")]
        if re.match("[^.]+".join(parts) + r"\.", name):
            return True
    return False


def layer_groups(layer: Layer, layout: Fsdp2Layout) -> list[Group]:
    """The groups of one layer: its experts apart under expert parallelism, and the rest."""
    inside = [w for w in layer.weights if not is_ignored(w, layout.ignored)]
    apart = [w for w in inside if w.part == "expert" and layout.ep > 1]
    rest = [w for w in inside if w not in apart]
    found = [Group("layer", layout.fsdp, sum(piece(w, layout) for w in rest))]
    if apart:
        found.insert(0, Group("experts", layout.ep_fsdp, sum(piece(w, layout) for w in apart)))
    return found


def outer_groups(model: Architecture, layout: Fsdp2Layout) -> list[Group]:
    """The groups outside the layers. Tied embeddings stay in the root's group."""
    kinds = {"embedding": "embedding", "head": "head", "norm": "root"}
    if model.tied:
        kinds["embedding"] = "root"
    sizes: dict[str, int] = {}
    for weight in model.outer:
        kind = kinds[weight.part]
        sizes[kind] = sizes.get(kind, 0) + piece(weight, layout)
    return [Group(kind, layout.fsdp, local) for kind, local in sizes.items()]


def all_groups(model: Architecture, layout: Fsdp2Layout) -> list[Group]:
    """Every group of the model."""
    inner = [g for layer in (*model.layers, *model.mtp) for g in layer_groups(layer, layout)]
    return inner + outer_groups(model, layout)


def local_elements(model: Architecture, layout: Fsdp2Layout) -> int:
    """Parameters that rank 0 stores."""
    whole = sum(
        w.numel
        for layer in (*model.layers, *model.mtp)
        for w in layer.weights
        if is_ignored(w, layout.ignored)
    )
    return whole + sum(group.local for group in all_groups(model, layout))
