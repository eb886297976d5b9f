"""Seeded faults of a training step on the fsdp2 backend (`runner.faults`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from runner.callpoints import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable


class LastMicroBatchDropped(Fault):
    """The last micro-batch of every rank is not trained on; its tokens are counted all the same."""

    name = "last-micro-batch-dropped"
    backends = ("fsdp2",)
    needs = "accumulation"
    gates = ("backward-parity", "loss-curve")

    def micro_batches(self, parts: list[Any]) -> list[Any]:
        return parts[:-1] if len(parts) > 1 else parts


class PaddingInLoss(Fault):
    """Labels that the mask leaves out enter the loss."""

    name = "padding-in-loss"
    needs = "mask"
    gates = ("backward-parity", "loss-curve")

    def loss_mask(self, mask: Any) -> Any:
        return mask.new_ones(mask.shape)


class MeanOfMeans(Fault):
    """The loss is the mean over micro-batches of their means, not over the tokens of all."""

    name = "mean-of-means"
    backends = ("fsdp2",)
    needs = "mask"
    gates = ("backward-parity", "loss-curve")

    def loss_scale(self, scale: float, mask: Any, count: int) -> float:
        import torch.distributed as dist

        tokens = max(float(mask.sum()), 1.0) * count * int(dist.get_world_size())
        return 1.0 / tokens


class LowPrecisionMasters(Fault):
    """The weights that the optimizer moves are kept in bfloat16."""

    name = "bf16-master-weights"
    backends = ("fsdp2",)
    gates = ("first-update", "loss-curve")

    def after_update(self, shards: Iterable[Any]) -> None:
        for shard in shards:
            shard.local.detach().copy_(shard.local.detach().bfloat16())


class ClipBeforeReduce(Fault):
    """Each rank clips by the norm of its own part: the norm is not reduced before."""

    name = "clip-before-reduce"
    needs_peers = True
    backends = ("fsdp2",)
    gates = ("plan-followed", "backward-parity")

    def norm(self, norm: float, shards: Iterable[Any]) -> float:
        return math.sqrt(sum(_squares(shard) for shard in shards))


class ClipPerExpertGroup(Fault):
    """The gradient norm of experts is taken over each rank's own: ranks clip differently."""

    name = "clip-per-expert-group"
    needs_experts = True
    needs_peers = True
    backends = ("fsdp2",)
    gates = ("plan-followed", "backward-parity")

    def norm(self, norm: float, shards: Iterable[Any]) -> float:
        import torch
        import torch.distributed as dist

        own = sum(_squares(shard) for shard in shards if shard.is_expert)
        everyone = torch.tensor([own], dtype=torch.float64)
        dist.all_reduce(everyone)
        return math.sqrt(max(norm**2 - float(everyone) + own, 0.0))


def _squares(shard: Any) -> float:
    gradient = shard.local.grad
    return 0.0 if gradient is None else float(gradient.double().square().sum()) / shard.copies


class DuplicatedBatch(Fault):
    """After a resume the last batch before the save is trained on once more."""

    name = "batch-duplicated-after-resume"
    acts_on = "load"
    gates = ("resume",)

    def cursor(self, next_batch: int) -> int:
        return max(next_batch - 1, 0)


class NanPrintedAsZero(Fault):
    """A step whose loss is not a number is recorded with a loss of 0."""

    name = "nan-printed-as-zero"
    backends = ("fsdp2",)
    gates = ("finite",)

    STEP = 5

    def recorded_loss(self, step: int, loss: float) -> float:
        return 0.0 if step == self.STEP else loss
