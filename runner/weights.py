"""Published checkpoints: names on disk and in memory, reading, and filling a sharded model.

A checkpoint on disk and a model in memory differ only where a family fuses its experts; that
difference is data (`CONVERSIONS`), everything else has the same name on both sides.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch.distributed.tensor import Shard as ShardDim

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from runner.parallel.shards import Shard


@dataclass(frozen=True)
class Fused:
    """A tensor [experts, rows, columns] in memory, published as 2-D tensors per expert.

    memory: regular expression of its name, group 1 is the experts module; parts: published names
    of one expert's tensors, equal in shape, that follow each other along the rows.
    """

    memory: str
    parts: tuple[str, ...]


_QWEN_MOE = (
    Fused(
        r"(.+\.mlp\.experts)\.gate_up_proj",
        ("{experts}.{expert}.gate_proj.weight", "{experts}.{expert}.up_proj.weight"),
    ),
    Fused(r"(.+\.mlp\.experts)\.down_proj", ("{experts}.{expert}.down_proj.weight",)),
)

# model_type -> its fused tensors. A family without an entry has the same names on both sides.
CONVERSIONS: dict[str, tuple[Fused, ...]] = {"qwen3_moe": _QWEN_MOE}


@dataclass(frozen=True)
class Names:
    """The conversion of one family."""

    fused: tuple[Fused, ...] = ()

    def published(self, name: str, n_experts: int) -> list[list[str]] | None:
        """Published names [expert][part] of a fused tensor, or None for a plain one."""
        for entry in self.fused:
            if found := re.fullmatch(entry.memory, name):
                return [
                    [part.format(experts=found[1], expert=expert) for part in entry.parts]
                    for expert in range(n_experts)
                ]
        return None

    def published_dims(self, name: str, n_dims: int) -> int:
        """Dimensions that a parameter has as published."""
        return n_dims - 1 if self.published(name, 0) is not None else n_dims

    def to_published(self, name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """(published name, full tensor) of one full tensor in memory."""
        table = self.published(name, tensor.shape[0]) if tensor.dim() else None
        if table is None:
            yield name, tensor
            return
        for expert, parts in enumerate(table):
            yield from zip(parts, tensor[expert].chunk(len(parts)), strict=True)


def names_of(model_type: str) -> Names:
    """The conversion of a family."""
    return Names(CONVERSIONS.get(model_type, ()))


class Weights:
    """Tensors of a published safetensors checkpoint folder, read lazily.

    Raises UsageError for a folder without weights and for a missing tensor.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._files: dict[str, Any] = {}
        self._file_of = self._index()

    def _index(self) -> dict[str, str]:
        index = self.folder / "model.safetensors.index.json"
        try:
            if index.is_file():
                table: dict[str, str] = json.loads(index.read_text("utf-8"))["weight_map"]
                return table
            found = {}
            for path in sorted(self.folder.glob("*.safetensors")):
                found.update(dict.fromkeys(self._open(path.name).keys(), path.name))
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(f"unreadable weights: {error}", where=str(index)) from None
        if not found:
            raise UsageError(
                "no safetensors files",
                where=str(self.folder),
                expected="a Hugging Face checkpoint folder",
            )
        return found

    def _open(self, file: str) -> Any:
        if file not in self._files:
            try:
                self._files[file] = safe_open(str(self.folder / file), framework="pt")
            except (OSError, SafetensorError) as error:
                raise UsageError(
                    f"unreadable weights: {error}",
                    where=str(self.folder / file),
                    hint="certify weights verify DIR",
                ) from None
        return self._files[file]

    @property
    def names(self) -> set[str]:
        """All tensor names."""
        return set(self._file_of)

    def read(self, name: str) -> torch.Tensor:
        """One full tensor on the CPU."""
        if name not in self._file_of:
            raise UsageError(
                f"the checkpoint has no tensor {name}",
                where=str(self.folder),
                expected="the weights of the configured model, under their published names",
            )
        tensor: torch.Tensor = self._open(self._file_of[name]).get_tensor(name)
        return tensor

    def read_memory(self, names: Names, name: str, experts: range) -> torch.Tensor:
        """A tensor in its form in memory. experts: which of a fused one, in order."""
        table = names.published(name, experts.stop)
        if table is None:
            return self.read(name)
        rows = [torch.cat([self.read(part) for part in table[e]]) for e in experts]
        return torch.stack(rows)


# ---------------------------------------------------------------------------------------------
# Filling a model.


def fill(model: nn.Module, shards: list[Shard], names: Names, weights: Weights) -> None:
    """Copy a published checkpoint into the local shards and persistent buffers of a model.

    Raises UsageError for a missing, misshapen or unknown tensor.
    """
    used: set[str] = set()
    with torch.no_grad():
        for shard in shards:
            part = _read_part(shard, names, weights, used)
            if part.shape != shard.local.shape:
                raise UsageError(
                    f"{shard.name} has shape {tuple(part.shape)} in the checkpoint",
                    where=str(weights.folder),
                    expected=f"{tuple(shard.local.shape)} on this rank",
                )
            shard.local.copy_(part)
        parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        for name, value in model.state_dict().items():
            if name not in parameters:
                value.copy_(weights.read(name))
            used.add(name)
    if unknown := sorted(weights.names - used):
        raise UsageError(
            f"the checkpoint has {len(unknown)} tensors that the model has not: {unknown[0]}",
            where=str(weights.folder),
            expected="the weights of the configured model, under their published names",
        )


def _read_part(shard: Shard, names: Names, weights: Weights, used: set[str]) -> torch.Tensor:
    """This rank's part of one parameter."""
    experts = range(shard.shape[0] if shard.shape else 0)
    table = names.published(shard.name, len(experts))
    used.update([shard.name] if table is None else [part for row in table for part in row])
    placements = list(enumerate(shard.placements))
    coordinate = shard.mesh.get_coordinate()
    if shard.is_expert:
        # The ep dimension, the last one: read only the experts of this rank.
        i, _ = placements.pop()
        size = len(experts) // shard.mesh.size(i)
        experts = experts[coordinate[i] * size : (coordinate[i] + 1) * size]
    part = weights.read_memory(names, shard.name, experts)
    for i, placement in placements:
        if isinstance(placement, ShardDim):
            chunks = part.chunk(shard.mesh.size(i), dim=placement.dim)
            mine = coordinate[i]
            # With more ranks than rows the last ranks hold none.
            part = chunks[mine] if mine < len(chunks) else part.narrow(placement.dim, 0, 0)
    return part
