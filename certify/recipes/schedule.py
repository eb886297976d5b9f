"""The learning rate of every step, as the plan fixes it before launch.

Megatron-LM's convention, which both backends follow: step n (from 1) uses the rate at t = n - 1;
while t <= warmup_steps the rate grows linearly from warmup_init_lr to lr; then it decays to
min_lr over the remaining decay_steps - warmup_steps and stays there; wsd holds lr and decays
linearly over the last wsd_decay_steps of them. The plan computes it here, by
itself, so that a scheduler that is off by one on either side departs from the plan.
Source: Megatron-LM, megatron/core/optimizer_param_scheduler.py (get_lr).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certify.runspec import TrainingSpec


def learning_rate(training: TrainingSpec, step: int) -> float:
    """The rate that step ``step`` (from 1) uses. Raises ValueError for an unknown schedule
    and for a wsd decay that is empty or begins within the warm-up."""
    t = step - 1
    after_warm_up = training.decay_steps - training.warmup_steps
    if training.schedule == "wsd" and not 1 <= training.wsd_decay_steps <= after_warm_up:
        raise ValueError(
            f"wsd_decay_steps {training.wsd_decay_steps} is not from 1 to {after_warm_up}"
        )
    if training.warmup_steps > 0 and t <= training.warmup_steps:
        rise = training.lr - training.warmup_init_lr
        return training.warmup_init_lr + rise * t / training.warmup_steps
    if training.schedule == "constant":
        return training.lr
    if t > training.decay_steps:
        return training.min_lr
    done = (t - training.warmup_steps) / after_warm_up
    if training.schedule == "cosine":
        remaining = 0.5 * (math.cos(math.pi * done) + 1.0)
    elif training.schedule == "linear":
        remaining = 1.0 - done
    elif training.schedule == "wsd":
        remaining = min(1.0, (training.decay_steps - t) / training.wsd_decay_steps)
    else:
        raise ValueError(f"unknown schedule {training.schedule!r}")
    return training.min_lr + remaining * (training.lr - training.min_lr)
