"""Digests of the training state that do not depend on how it is laid out over ranks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from certify.records import root_digest, tensor_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.names import Names
    from runner.parallel.shards import Shard


# The end of the names of the buffers that a router's choice adds to its scores.
CHOICE_BIAS = "bias"


def digest_of(tensor: torch.Tensor) -> str:
    """`records.tensor_digest` of a full tensor."""
    ready = tensor.detach().cpu().contiguous()
    dtype = str(ready.dtype).removeprefix("torch.")
    raw = ready.view(-1).view(torch.uint8).numpy() if ready.dim() else ready.numpy()
    return tensor_digest(dtype, ready.shape, raw.tobytes())


def json_digest(value: Any) -> str:
    """sha256 of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def canonical_digests(
    shards: list[Shard], names: Names, part: Callable[[Shard], torch.Tensor]
) -> dict[str, str]:
    """published name -> digest of the full tensor (collective).

    part: this rank's local tensor of a shard. Ranks take turns in hashing.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine: dict[str, str] = {}
    for number, shard in enumerate(shards):
        whole = shard.full(part(shard))
        if number % ranks == rank:
            mine.update({n: digest_of(t) for n, t in names.to_published(shard.name, whole)})
    return merged(mine)


def merged(mine: dict[str, str]) -> dict[str, str]:
    """The union of every rank's dictionary (collective)."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return {name: value for part in everyone for name, value in sorted(part.items())}


def full_tensors(
    shards: list[Shard], names: Names, part: Callable[[Shard], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """published name -> full tensor on the CPU; empty on all ranks but 0 (collective)."""
    found: dict[str, torch.Tensor] = {}
    for shard in shards:
        whole = shard.full(part(shard))
        if dist.get_rank() == 0:
            found.update({n: t.cpu() for n, t in names.to_published(shard.name, whole)})
    return found


@dataclass(frozen=True)
class TrainingState:
    """The parts of a run that a checkpoint must bring back."""

    shards: list[Shard]
    names: Names
    optimizer: Any
    next_batch: int
    rng: Callable[[], bytes]
    # Persistent buffers by name; equal on every rank.
    buffers: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def digests(self) -> dict[str, str]:
        """Part -> digest, as in `records.State` (collective). Moments once they exist.

        Buffers of the checkpoint count with the parameters, as in its files; the bias of routers
        has a digest of its own beside.
        """
        buffers = {self.names.plain(n): digest_of(value) for n, value in self.buffers.items()}
        parameters = canonical_digests(self.shards, self.names, _parameter)
        found = {"params": root_digest({**parameters, **buffers})}
        if biases := {n: d for n, d in buffers.items() if n.endswith(CHOICE_BIAS)}:
            found["router_bias"] = root_digest(biases)
        if self.optimizer.state:
            for key in ("exp_avg", "exp_avg_sq"):
                moments = canonical_digests(self.shards, self.names, self._moment(key))
                found[key] = root_digest(moments)
            steps = {s.name: float(self.optimizer.state[s.local]["step"]) for s in self.shards}
            found["optimizer_step"] = json_digest(steps)
        found["lr"] = json_digest(self._group_values("lr"))
        found["weight_decay"] = json_digest(self._group_values("weight_decay"))
        found["data_cursor"] = json_digest({"next_batch": self.next_batch})
        mine = {f"rng.rank-{dist.get_rank()}": hashlib.sha256(self.rng()).hexdigest()}
        return {**found, **merged(mine)}

    def _moment(self, key: str) -> Callable[[Shard], torch.Tensor]:
        def part(shard: Shard) -> torch.Tensor:
            moment: torch.Tensor = self.optimizer.state[shard.local][key]
            return moment

        return part

    def _group_values(self, key: str) -> Mapping[str, str]:
        """parameter name -> value of its group, as float hex."""
        value_of = {
            id(parameter): float(group[key]).hex()
            for group in self.optimizer.param_groups
            for parameter in group["params"]
        }
        return {shard.name: value_of[id(shard.local)] for shard in self.shards}


def _parameter(shard: Shard) -> torch.Tensor:
    return shard.local
