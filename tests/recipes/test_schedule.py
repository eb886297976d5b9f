"""The planned learning rate, against values worked out by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest

from certify.recipes.schedule import learning_rate
from certify.runspec import TrainingSpec

BASE = TrainingSpec(
    steps=100,
    global_batch=8,
    micro_batch=8,
    lr=1.0,
    min_lr=0.1,
    warmup_init_lr=0.2,
    warmup_steps=4,
    decay_steps=100,
    schedule="cosine",
    weight_decay=0.0,
    beta1=0.9,
    beta2=0.95,
    eps=1e-8,
    clip_grad=1.0,
    seed=1,
)


def test_warm_up_is_linear_and_reaches_the_peak() -> None:
    rates = [learning_rate(BASE, step) for step in range(1, 6)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0], abs=1e-15)


def test_cosine_half_way_and_end() -> None:
    # Step n uses t = n - 1; half of the decay lies at t = 4 + 48.
    assert learning_rate(BASE, 53) == pytest.approx(0.1 + 0.9 * 0.5)
    assert learning_rate(BASE, 101) == pytest.approx(0.1)
    assert learning_rate(BASE, 102) == 0.1
    quarter = 0.1 + 0.9 * 0.5 * (math.cos(math.pi / 4) + 1)
    assert learning_rate(BASE, 29) == pytest.approx(quarter)


def test_linear_and_constant() -> None:
    linear = dataclasses.replace(BASE, schedule="linear")
    assert learning_rate(linear, 53) == pytest.approx(0.55)
    constant = dataclasses.replace(BASE, schedule="constant")
    assert learning_rate(constant, 2) == pytest.approx(0.4)
    assert learning_rate(constant, 80) == 1.0


def test_without_warm_up_the_first_step_has_the_peak() -> None:
    bare = dataclasses.replace(BASE, warmup_steps=0, warmup_init_lr=1.0)
    assert learning_rate(bare, 1) == 1.0


WSD = dataclasses.replace(BASE, schedule="wsd", decay_steps=14, wsd_decay_steps=5)


def test_wsd_table() -> None:
    rates = [learning_rate(WSD, step) for step in range(1, 18)]
    rise, stable = [0.2, 0.4, 0.6, 0.8, 1.0], [1.0] * 5
    fall = [0.82, 0.64, 0.46, 0.28, 0.1, 0.1, 0.1]
    assert rates == pytest.approx(rise + stable + fall, abs=1e-15)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_the_end_of_the_decay_is_min_lr_to_the_last_bit(schedule: str) -> None:
    training = dataclasses.replace(WSD, schedule=schedule, lr=3e-4, min_lr=7e-6)
    assert learning_rate(training, 14) > 7e-6
    assert learning_rate(training, 15) == 7e-6
    assert learning_rate(training, 16) == 7e-6


@pytest.mark.parametrize("steps", [0, 11])
def test_a_wsd_decay_outside_the_steps_after_warm_up(steps: int) -> None:
    with pytest.raises(ValueError, match="is not from 1 to 10"):
        learning_rate(dataclasses.replace(WSD, wsd_decay_steps=steps), 1)


def test_unknown_schedule() -> None:
    with pytest.raises(ValueError, match="unknown schedule 'wsd2'"):
        learning_rate(dataclasses.replace(BASE, schedule="wsd2"), 50)
