"""AdamW on local shards, the learning-rate schedule, and the exact global gradient norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from certify.errors import UsageError

if TYPE_CHECKING:
    from certify.runspec import TrainingSpec
    from runner.callpoints import Fault
    from runner.names import Names
    from runner.parallel.shards import Shard

SCHEDULES = ("cosine", "linear", "constant", "wsd")


@dataclass(frozen=True)
class LearningRate:
    """The rate of each step: linear warm-up, then `schedule` down to min_lr.

    wsd stays at lr until wsd_decay_steps before the end of the decay, then falls linearly.
    Raises UsageError for an unknown schedule and for a wsd decay that does not fit.
    """

    training: TrainingSpec

    def __post_init__(self) -> None:
        if self.training.schedule not in SCHEDULES:
            raise UsageError(
                f"unknown schedule {self.training.schedule!r}",
                where="training.schedule",
                expected=", ".join(SCHEDULES),
            )
        longest = self.training.decay_steps - self.training.warmup_steps
        if self.training.schedule == "wsd" and not 1 <= self.training.wsd_decay_steps <= longest:
            raise UsageError(
                f"a decay of {self.training.wsd_decay_steps} steps does not fit the schedule wsd",
                where="training.wsd_decay_steps",
                expected=f"1 to {longest} (decay_steps - warmup_steps)",
                hint="set how many of the last steps the rate falls in",
            )

    def __call__(self, index: int) -> float:
        """The rate of step index + 1."""
        t = self.training
        if t.warmup_steps > 0 and index <= t.warmup_steps:
            return t.warmup_init_lr + (t.lr - t.warmup_init_lr) * index / t.warmup_steps
        if t.schedule == "constant":
            return t.lr
        if index > t.decay_steps:
            return t.min_lr
        if t.schedule == "wsd":
            into = max(0, index - (t.decay_steps - t.wsd_decay_steps))
            return t.min_lr + (1.0 - into / t.wsd_decay_steps) * (t.lr - t.min_lr)
        done = (index - t.warmup_steps) / (t.decay_steps - t.warmup_steps)
        left = 0.5 * (math.cos(math.pi * done) + 1.0) if t.schedule == "cosine" else 1.0 - done
        return t.min_lr + left * (t.lr - t.min_lr)


def build_optimizer(
    shards: list[Shard], names: Names, training: TrainingSpec, fault: Fault, fused: bool
) -> Any:
    """torch's AdamW over the local parameters, in two groups: with weight decay, and without.

    Decay applies to parameters that are published with two or more dimensions.
    Raises UsageError for another optimizer.
    """
    if training.optimizer != "adamw":
        raise UsageError(
            f"unknown optimizer {training.optimizer!r}",
            where="training.optimizer",
            expected="adamw",
        )
    groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
    for shard in shards:
        n_dims = names.published_dims(shard.name, len(shard.shape))
        groups[fault.decays(shard.name, n_dims)].append(shard.local)
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": training.weight_decay if decays else 0.0}
            for decays, parameters in groups.items()
            if parameters
        ],
        lr=training.warmup_init_lr,
        betas=(training.beta1, training.beta2),
        eps=training.eps,
        fused=fused,
    )


def set_rate(optimizer: Any, rate: float) -> None:
    """Give every group the rate of this step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def effective(optimizer: Any, shards: list[Shard], clip_grad: float) -> dict[str, float]:
    """Hyper-parameters read back from a live AdamW; decayed_parameters: elements of the whole
    model to which weight decay applies."""
    group = optimizer.param_groups[0]
    beta1, beta2 = group["betas"]
    decayed = {id(p) for g in optimizer.param_groups if g["weight_decay"] > 0 for p in g["params"]}
    return {
        "beta1": beta1,
        "beta2": beta2,
        "eps": group["eps"],
        "weight_decay": max(g["weight_decay"] for g in optimizer.param_groups),
        "clip_grad": clip_grad,
        "decayed_parameters": sum(math.prod(s.shape) for s in shards if id(s.local) in decayed),
    }


def local_square_sum(shards: list[Shard], dtype: torch.dtype) -> torch.Tensor:
    """This rank's summand of the squared global gradient norm.

    A part that several ranks hold counts once: each of them adds its share. The sum over all
    ranks is the square of the norm over the whole model, whatever the meshes.
    """
    squares = [
        shard.local.grad.to(dtype).square().sum() / shard.copies
        for shard in shards
        if shard.local.grad is not None
    ]
    return torch.stack(squares).sum()


def clip_factor(norm: float, limit: float) -> float:
    """What `clip` multiplies gradients with; 1 where it changes nothing."""
    factor = limit / (norm + 1e-6)
    return factor if limit > 0 and factor < 1.0 else 1.0


def clip(shards: list[Shard], norm: float, limit: float) -> None:
    """Scale all gradients so that the global norm is at most `limit`; 0 means no limit.

    As torch and Megatron do, the factor is limit / (norm + 1e-6), never above 1.
    """
    factor = clip_factor(norm, limit)
    if factor == 1.0:
        return
    torch._foreach_mul_([s.local.grad for s in shards if s.local.grad is not None], factor)


def global_sum(values: list[torch.Tensor], dtype: torch.dtype, device: Any) -> list[float]:
    """Each scalar added up over all ranks, in one reduction; equal on every rank."""
    packed = torch.stack([v.detach().to(device=device, dtype=dtype) for v in values])
    dist.all_reduce(packed)
    return [float(v) for v in packed.tolist()]
