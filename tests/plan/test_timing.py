"""The time bound."""

from __future__ import annotations

import pytest

from certify.plan.communication import Collective
from certify.plan.devices import device_of
from certify.plan.timing import Speeds, bound

from certify.errors import UsageError  # isort: skip

MOVED = [Collective("all_gather", "fsdp", 16, 1, 10e9, 8e9, 2e9, "")]


def test_compute_and_traffic_by_hand() -> None:
    speeds = Speeds(mfu=0.5, peak_flops=400e12, within=100e9, across=10e9)
    found = bound(8e15, 8, 0.25, MOVED, speeds)
    assert found.compute_s == pytest.approx(8e15 / (8 * 400e12 * 0.5) * 1.25)
    assert found.traffic_s == pytest.approx(0.08 + 0.2)
    assert found.at_least_s == found.compute_s
    assert found.at_most_s == pytest.approx(found.compute_s + found.traffic_s)


def test_devices_state_their_source() -> None:
    assert device_of(None).memory == 64 * 2**30
    die = device_of("Ascend910")
    assert (die.memory, die.peak_flops) == (64 * 2**30, 376e12)
    assert "2506.12708" in str(die.speed_source)
    assert device_of("910B4").memory == 32 * 2**30
    assert device_of("910B4").peak_flops is None


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        device_of("910B33")
    assert "910B3" in str(caught.value.hint)
