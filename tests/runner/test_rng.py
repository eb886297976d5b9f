"""The generators of a rank: seeded apart, advanced by every step, restored to the last bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from runner import rng
from runner.device import Device

pytestmark = pytest.mark.torch


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def test_every_rank_has_its_own_seed() -> None:
    found = []
    for rank in range(3):
        rng.seed_all(7, rank)
        found.append(draws())
    for column in zip(*found, strict=True):
        assert len(set(column)) == 3
    rng.seed_all(8, 0)
    assert draws() == found[1], "seed + rank"


def test_a_step_advances_every_generator_by_one_draw() -> None:
    device = Device("cpu", 0)
    rng.seed_all(7, 0)
    states = [rng.capture(device)]
    draws()
    second = draws()
    rng.seed_all(7, 0)
    rng.advance(device)
    states.append(rng.capture(device))
    assert states[0] != states[1]
    assert draws() == second
    rng.restore(states[1], device)
    assert rng.capture(device) == states[1]
    assert draws() == second
