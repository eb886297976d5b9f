"""Seeded faults of what a checkpoint holds, and of what a load makes of it (`runner.faults`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runner.callpoints import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class _Spoiled(Fault):
    """Tensors hold something else while they are saved, and what training needs afterwards."""

    backends = ("fsdp2",)
    acts_on = "save"

    def spoiled(self, shards: Iterable[Any], buffers: Mapping[str, Any]) -> Iterator[Any]:
        """The local tensors, or parts of them, that are saved as zeros."""
        raise NotImplementedError

    @contextmanager
    def while_saving(self, shards: Iterable[Any], buffers: Mapping[str, Any]) -> Iterator[None]:
        parts = [(part, part.clone()) for part in self.spoiled(shards, buffers)]
        for part, _ in parts:
            part.zero_()
        try:
            yield
        finally:
            for part, before in parts:
                part.copy_(before)


class ExpertBlockLost(_Spoiled):
    """Of the blocks into which experts are divided over ranks, a save holds only the first."""

    name = "expert-block-lost"
    needs_peers = True
    needs_experts = True
    gates = ("resume", "reshard")

    def spoiled(self, shards: Iterable[Any], buffers: Mapping[str, Any]) -> Iterator[Any]:
        for shard in shards:
            if shard.is_expert and shard.mesh["ep"].get_local_rank() > 0:
                yield shard.local.detach()


class VocabularyRowsLost(_Spoiled):
    """The last row of the embedding is taken for padding and not saved."""

    name = "vocabulary-rows-lost"
    gates = ("resume", "reshard")

    def spoiled(self, shards: Iterable[Any], buffers: Mapping[str, Any]) -> Iterator[Any]:
        for shard in shards:
            if "embed" in shard.name and _holds_last_row(shard):
                yield shard.local.detach()[-1:]


def _holds_last_row(shard: Any) -> bool:
    rows = [i for i, placement in enumerate(shard.placements) if placement.is_shard(0)]
    return all(shard.mesh.get_local_rank(i) == shard.mesh.size(i) - 1 for i in rows)


class RouterBiasNotSaved(_Spoiled):
    """The bias of the routers' choice is not saved: after a resume it is zero."""

    name = "router-bias-not-saved"
    needs_experts = True
    needs = "router-bias"
    gates = ("resume", "reshard")

    def spoiled(self, shards: Iterable[Any], buffers: Mapping[str, Any]) -> Iterator[Any]:
        yield from (value for name, value in buffers.items() if name.endswith("bias"))


class ExpertShardSwapped(Fault):
    """Where another layout loads a checkpoint, each rank gets the experts of its neighbour."""

    name = "expert-shard-swapped"
    needs_peers = True
    needs_experts = True
    acts_on = "load"
    backends = ("fsdp2",)
    gates = ("reshard",)

    def after_restore(self, model: Any, shards: Iterable[Any], resharding: bool) -> None:
        from runner.collectives import gather_bytes

        for shard in shards:
            if resharding and shard.is_expert:
                group = shard.mesh["ep"]
                blocks = gather_bytes(shard.local.detach(), group.get_group())
                shard.local.detach().copy_(blocks[(group.get_local_rank() + 1) % group.size()])


class TiedUntied(Fault):
    """After a load the head has a copy of the embedding of its own, which nothing trains."""

    name = "tied-untied-by-load"
    acts_on = "load"
    backends = ("fsdp2",)
    needs = "tied"
    gates = ("resume",)

    def after_restore(self, model: Any, shards: Iterable[Any], resharding: bool) -> None:
        from torch.nn.functional import linear

        embedding = next(shard for shard in shards if "embed" in shard.name)
        copied = embedding.full(embedding.local).detach().clone()

        def forward(hidden: Any) -> Any:
            return linear(hidden, copied.to(hidden.dtype))

        model.get_output_embeddings().forward = forward
