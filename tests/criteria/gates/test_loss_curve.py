"""loss-curve: drift, trend, band, first steps, routing, seeds."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest

from certify.criteria.evidence import Evidence
from certify.criteria.gates.loss_curve import run_level
from certify.criteria.judge import judge
from certify.criteria.load import limits_of, load_criteria
from certify.records import Step
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import Campaign

GATE = "loss-curve"


def noise(sd: float, rho: float = 0.0, seed: int = 3) -> Any:
    """A factor of the step: 1 plus AR(1) noise of this standard deviation."""
    generator, values = random.Random(seed), [0.0]
    for _ in range(400):
        values.append(rho * values[-1] + generator.gauss(0, sd * math.sqrt(1 - rho * rho)))
    return lambda step: 1 + values[step]


def after(start: int, amount: float) -> Any:
    return lambda step: 1 + amount * (step > start)


def late(c: Campaign, amount: float, sd: float = 0.0005) -> Campaign:
    """Noise that begins after the tight first steps, and an offset with it."""
    wave = noise(sd)
    return c.scale_loss("candidate", lambda n: 1 if n <= 10 else wave(n) + amount)


ROWS: list[Row] = [
    (lambda c: None, "PASS", "no step outside the band in 200 steps"),
    (lambda c: late(c, 0.0), "PASS", ""),
    (lambda c: late(c, 0.004), "FAIL", "drift +0.0037"),
    (lambda c: late(c, -0.004), "FAIL", "drift -0.0038"),
    # Wide noise: nothing is shown, neither equal nor different.
    (lambda c: late(c, 0.0021, sd=0.001), "INCONCLUSIVE", "would be needed, 200 are here"),
    # A curve that has begun to part: its mean is still inside, its trend is not.
    (lambda c: c.scale_loss("candidate", lambda n: 1 + max(0, n - 120) * 5e-5), "FAIL", "trend"),
    (lambda c: c.scale_loss("candidate", after(197, 0.03)), "FAIL", "197 of 200 steps within"),
    (lambda c: c.scale_loss("candidate", lambda n: 1 + 0.03 * (n == 50)), "PASS", ""),
    (
        lambda c: c.scale_loss("candidate", lambda n: 1 + 1.2e-4 * (n == 4)),
        "FAIL",
        "largest difference in the first 10 steps is 0.00012",
    ),
    (lambda c: c.scale_loss("candidate", lambda n: 1 + 1.2e-4 * (n == 11)), "PASS", ""),
    (lambda c: c.edit_step("candidate", 30, loss=float("nan")), "FAIL", "step 30"),
    (lambda c: c.edit_step("reference", 30, loss=float("nan")), "INCONCLUSIVE", "reference's loss"),
    (lambda c: c.edit_step("reference", 30, loss=0.0), "INCONCLUSIVE", "reference's loss is 0"),
    (lambda c: c.edit_step("candidate", 30, loss=1e300), "INCONCLUSIVE", "drift"),
    (lambda c: c.drop_run("reference"), "INCONCLUSIVE", "the run reference left no records"),
    (lambda c: c.drop_kind("candidate", Step), "INCONCLUSIVE", "no step in common"),
]


@pytest.mark.parametrize("row", ROWS)
def test_table(row: Row) -> None:
    expect(GATE, row)


def test_equal_losses_pass_with_an_interval_of_width_zero() -> None:
    campaign = Campaign()
    campaign.rounding = [0.0] * 200
    campaign._add_training("candidate")
    result = campaign.gate(GATE)
    assert (result.verdict, result.statistic, result.low, result.high) == ("PASS", 0, 0, 0)
    assert "bitwise equal" in result.reason


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (60, "60 steps are too few for an interval: 100 are needed"),
        (120, "the last half, 60 steps, is too short for an interval: 200 steps are needed"),
    ],
)
def test_too_few_steps_say_how_many_are_needed(steps: int, reason: str) -> None:
    expect(GATE, (lambda c: None, "INCONCLUSIVE", reason), Campaign(steps=steps))


def checks(campaign: Campaign) -> dict[str, Any]:
    return {check.name: check for check in campaign.gate(GATE).checks}


def test_a_noisy_reference_widens_the_band_up_to_the_cap() -> None:
    def spikes(c: Campaign, size: float) -> Campaign:
        return c.scale_loss("candidate", lambda n: 1 + size * (-1) ** n * (n > 100 and n % 9 == 0))

    assert checks(spikes(Campaign(), 0.01))["band"].outcome == "violated"
    noisy = spikes(Campaign(), 0.01).scale_loss("reference-again", noise(0.0025))
    found = checks(noisy)
    assert found["band"].outcome == "ok"
    assert found["A/A sd"].value == pytest.approx(0.0025, rel=0.1)
    capped = spikes(Campaign(), 0.021).scale_loss("reference-again", noise(0.05))
    assert checks(capped)["band"].outcome == "violated"


def test_without_a_repeated_reference_the_narrow_band_applies() -> None:
    found = checks(Campaign().drop_run("reference-again"))
    assert found["band"].outcome == "ok"
    assert "no repetition" in found["A/A sd"].detail


def test_bf16_has_no_limit_on_the_first_steps() -> None:
    campaign = Campaign()
    campaign.plan["precision"] = "bf16"
    expect(GATE, (lambda c: c.scale_loss("candidate", noise(0.0005)), "PASS", ""), campaign)
    assert "first steps" not in checks(campaign)


def flip(gap: float | None, ours: float | None = 1e-6) -> Any:
    return lambda c: c.compared(
        "routing",
        first_difference_step=39,
        differing=12,
        first_layer_max_gap_candidate=ours,
        first_layer_max_gap_reference=gap,
    )


ROUTING: list[Row] = [
    (flip(9e-6), "PASS", ""),
    (flip(2e-5), "FAIL", "step 39 is the first with another top-k set"),
    (flip(1e-6, ours=2e-5), "FAIL", "is 2e-05, a near-tie up to 1e-05"),
    (flip(float("nan")), "FAIL", "step 39"),
    (flip(None), "INCONCLUSIVE", "its gap was not recorded"),
    (lambda c: c.drop_run("compare"), "PASS", ""),  # the digests of all steps are equal
    (
        lambda c: c.drop_run("compare").edit_step("candidate", 7, routing_sha256="ff"),
        "INCONCLUSIVE",
        "top-k sets of the two sides were not compared",
    ),
    (
        lambda c: c.drop_run("compare").edit(
            "candidate",
            lambda r: isinstance(r, Step),
            lambda r: dataclasses.replace(r, routing_sha256=None),
        ),
        "INCONCLUSIVE",
        "not compared",
    ),
]


@pytest.mark.parametrize("row", ROUTING)
def test_the_first_routing_flip_must_be_a_near_tie(row: Row) -> None:
    expect(GATE, row)


def test_a_dense_model_has_no_routing() -> None:
    campaign = Campaign(moe=False)
    expect(GATE, (lambda c: None, "PASS", ""), campaign)
    assert "first routing flip" not in checks(campaign)


LIMITS = limits_of(load_criteria(), GATE, Campaign(steps=1).parsed())


@pytest.mark.parametrize(
    ("drifts", "needed", "outcomes"),
    [
        ([0.0], 1, []),
        ([0.0], 5, ["undecided"]),
        ([1e-4, -1e-4, 2e-4, 0.0, 5e-5], 5, ["ok"]),
        ([2e-3, 2.1e-3, 1.9e-3, 2e-3, 2e-3], 5, ["violated"]),
        ([3e-3, -3e-3, 2e-3, -2e-3, 0.0], 5, ["undecided"]),
        ([1e-4, -1e-4], 5, ["ok", "undecided"]),
        ([0.0, 0.0, 0.0], 1, ["ok"]),
    ],
)
def test_run_level(drifts: list[float], needed: int, outcomes: list[str]) -> None:
    found = run_level(drifts, 0.05, LIMITS["run-level"], needed)
    assert [check.outcome for check in found] == outcomes


def seeds(*drifts: float) -> Evidence:
    base = Campaign()
    evidence = base.evidence()
    pairs = []
    for drift in drifts:
        other = Campaign().scale_loss("candidate", lambda n, d=drift: 1 + d).evidence()
        pairs.append((other.runs["candidate"], other.runs["reference"]))
    return Evidence(evidence.runs, tuple(pairs))


@pytest.mark.parametrize(
    ("scale", "drifts", "verdict"),
    [
        ("reduced", (), "INCONCLUSIVE"),
        ("reduced", (1e-4, -1e-4, 5e-5, 0.0), "PASS"),
        ("reduced", (0.003, 0.0031, 0.0029, 0.003), "FAIL"),
        ("tiny", (1e-4, -1e-4), "PASS"),
    ],
)
def test_several_seeds_are_judged_together(scale: str, drifts: Any, verdict: str) -> None:
    campaign = Campaign()
    campaign.plan["scale"] = scale
    found = judge(campaign.parsed(), seeds(*drifts), load_criteria())
    assert next(g for g in found.gates if g.gate == GATE).verdict == verdict
