"""Published checkpoints: names on disk and in memory, reading, and filling a sharded model.

A checkpoint on disk and a model in memory differ where a family fuses its experts or renames its
modules; `runner.names` finds that difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch.distributed.tensor import Shard as ShardDim

from certify.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from runner.names import Names
    from runner.parallel.shards import Shard


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
        table = names.published(name)
        if table is None:
            return self.read(names.plain(name))
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
                value.copy_(weights.read(names.plain(name)))
            used.update(names.all_published(name))
    if unknown := sorted(weights.names - used):
        raise UsageError(
            f"the checkpoint has {len(unknown)} tensors that the model has not: {unknown[0]}",
            where=str(weights.folder),
            expected="the weights of the configured model, under their published names",
        )


def _read_part(shard: Shard, names: Names, weights: Weights, used: set[str]) -> torch.Tensor:
    """This rank's part of one parameter."""
    experts = range(shard.shape[0] if shard.shape else 0)
    used.update(names.all_published(shard.name))
    placements = list(enumerate(shard.placements))
    coordinate = shard.mesh.get_coordinate()
    if shard.is_expert:
        # The ep dimension, the last one: read only the experts of this rank.
        i, _ = placements.pop()
        size = len(experts) // shard.mesh.size(i)
        experts = experts[coordinate[i] * size : (coordinate[i] + 1) * size]
    part = weights.read_memory(names, shard.name, experts)
    if shard.is_expert and names.published(shard.name) is None:
        # Published in one tensor for all experts.
        part = part[experts.start : experts.stop]
    for i, placement in placements:
        if isinstance(placement, ShardDim):
            chunks = part.chunk(shard.mesh.size(i), dim=placement.dim)
            mine = coordinate[i]
            # With more ranks than rows the last ranks hold none.
            part = chunks[mine] if mine < len(chunks) else part.narrow(placement.dim, 0, 0)
    return part
