"""Statistics of top-k sets during training, on made-up routing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from certify.errors import UsageError
from runner import evidence
from runner.comparison.routing import routing

pytestmark = pytest.mark.torch


def routed(steps: list[int], seed: int = 0) -> evidence.Routing:
    rng = np.random.default_rng(seed)
    return evidence.Routing(
        ids=np.tile(np.int16([1, 3]), (len(steps), 2, 7, 1)),
        gap=rng.uniform(0.2, 0.4, (len(steps), 2, 7)).astype(np.float32),
        steps=np.asarray(steps, dtype=np.int64),
        layers=np.asarray([1, 4], dtype=np.int64),
    )


def test_equal_routing() -> None:
    values, classes = routing(routed([1, 2, 3]), routed([1, 2, 3], seed=1))
    assert values["steps_compared"] == values["steps_agreeing"] == 3
    assert values["first_difference_step"] is None
    assert values["differing"] == 0
    assert values["compared"] == 3 * 2 * 7
    assert classes["layer.4"] == {"differing": 0, "first_step_differing": 0, "compared": 21}


def test_first_flip_is_the_one_that_counts() -> None:
    reference = routed([1, 2, 3, 4])
    candidate = dataclasses.replace(routed([2, 3, 4, 5], seed=1), ids=reference.ids.copy())
    candidate.ids[1, 1, 5] = [0, 3]  # its step 3, layer 4: the cause
    candidate.gap[1, 1, 5], reference.gap[2, 1, 5] = 1e-6, 3e-6
    candidate.ids[2, 0, :4] = [0, 2]  # its step 4: follows
    values, classes = routing(candidate, reference)
    assert values["steps_compared"] == 3
    assert values["first_difference_step"] == 3
    assert values["steps_agreeing"] == 1
    assert values["first_step_differing"] == values["first_layer_differing"] == 1
    assert values["first_layer"] == 4
    assert values["first_layer_max_gap_candidate"] == pytest.approx(1e-6)
    assert values["first_step_max_gap_reference"] == pytest.approx(3e-6)
    assert values["first_step_median_gap_reference"] > 0.2  # type: ignore[operator]
    assert values["differing"] == 5
    assert classes["layer.1"]["differing"] == 4
    assert classes["layer.4"]["first_step_differing"] == 1


def test_flip_far_from_a_tie_shows_its_gap() -> None:
    candidate = routed([1, 2])
    candidate.ids[0, 0, 0] = [0, 1]
    candidate.ids[0, 1, 1] = [0, 1]
    candidate.gap[0, 1, 1] = 0.9
    values, _ = routing(candidate, routed([1, 2]))
    assert values["first_difference_step"] == 1
    assert values["first_layer"] == 1
    assert values["first_layer_max_gap_candidate"] == candidate.gap[0, 0, 0]
    assert values["first_step_max_gap_candidate"] == pytest.approx(0.9)


def test_routing_of_other_models_is_refused() -> None:
    other = dataclasses.replace(routed([1]), layers=np.asarray([0, 4], dtype=np.int64))
    with pytest.raises(UsageError, match="routing of shape"):
        routing(other, routed([1]))
