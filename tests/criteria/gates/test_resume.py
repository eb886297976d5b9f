"""resume: state, batches and trajectory in both tiers; controls must be noticed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from certify.records import Environment, Header, State, Step, Topology
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import SAVE, Campaign, with_values

GATE = "resume"


def late_steps(phase: str, factor: Any) -> Any:
    """Multiply the losses after the save."""
    return lambda c: c.edit(
        phase,
        lambda r: isinstance(r, Step) and r.step > SAVE,
        lambda r: with_values(r, loss=r.loss * factor(r.step - SAVE)),
    )


def topology(c: Campaign) -> Campaign:
    return c.edit(
        "resume",
        lambda r: isinstance(r, Topology),
        lambda r: dataclasses.replace(r, groups={"world": [0]}),
    )


def stack(c: Campaign, phase: str, **to: Any) -> Campaign:
    return c.edit(
        phase, lambda r: isinstance(r, Environment), lambda r: dataclasses.replace(r, **to)
    )


def same_process(c: Campaign) -> Campaign:
    def change(header: Header) -> Header:
        there = c.header("candidate", header.rank)
        return dataclasses.replace(header, pid=there.pid, start_unix_s=there.start_unix_s)

    return c.edit("resume", lambda r: isinstance(r, Header), change)


def hex_only(c: Campaign) -> Campaign:
    """One unit in the last place, which no decimal with few digits would show."""

    def change(step: Step) -> Step:
        return with_values(step, grad_norm=step.grad_norm * (1 + 2.3e-16))

    return c.edit("resume", lambda r: isinstance(r, Step) and r.step == 120, change, ranks=(1,))


ROWS: list[Row] = [
    (lambda c: None, "PASS", "bitwise tier: state, batches and 50 steps equal"),
    (late_steps("resume", lambda k: 1 + 1e-12 * (k == 30)), "FAIL", "step 130: loss is 0x1."),
    (hex_only, "FAIL", "step 120: grad_norm is 0x1."),
    (
        lambda c: c.state_part("resume", "load", "exp_avg", "ff"),
        "FAIL",
        "exp_avg differs after the load",
    ),
    (lambda c: c.state_part("resume", "load", "rng.rank-1", "ff"), "FAIL", "rng.rank-1 differs"),
    (
        lambda c: c.state_part("resume", "load", "exp_avg_sq", None),
        "FAIL",
        "exp_avg_sq: not loaded",
    ),
    (lambda c: c.state_part("candidate", "save", "lr", None), "FAIL", "lr: not saved"),
    (
        lambda c: c.state_part("resume", "load", "router_bias", "ff"),
        "FAIL",
        "router_bias: not saved",
    ),
    (lambda c: c.edit_step("resume", 107, tokens_sha256="ff"), "FAIL", "step 107: tokens_sha256"),
    (lambda c: c.edit_step("resume", 107, batch=7), "FAIL", "step 107: batch differs"),
    (lambda c: c.edit_step("resume", 107, mask_sha256="ff"), "FAIL", "step 107: mask_sha256"),
    (lambda c: c.edit_step("resume", 101, step=100), "FAIL", "step 100 was trained again"),
    (lambda c: c.edit_step("resume", 140, lr=0.5), "FAIL", "step 140: lr is 0.5, uninterrupted"),
    (topology, "FAIL", "the resumed run has another topology"),
    (same_process, "FAIL", "rank 0 resumed in the process that had saved"),
    # A criterion that cannot see a lost optimizer state proves nothing.
    (lambda c: c.without_fault("optimizer-dropped"), "FAIL", "does not notice optimizer-dropped"),
    (lambda c: c.without_fault("data-cursor-dropped"), "FAIL", "notice data-cursor-dropped"),
    (
        lambda c: c.controls.pop("optimizer-dropped"),
        "INCONCLUSIVE",
        "negative control optimizer-dropped was not run",
    ),
    (
        lambda c: c.controls["optimizer-dropped"].pop(1),
        "INCONCLUSIVE",
        "negative control optimizer-dropped has no records of rank 1",
    ),
    (
        lambda c: c.controls["optimizer-dropped"][1].pop(),
        "INCONCLUSIVE",
        "optimizer-dropped has no records of step 105 of rank 1",
    ),
    (
        lambda c: stack(c, "resume", packages={"torch": "2.12.0"}),
        "INCONCLUSIVE",
        "resume ran with torch 2.12.0, candidate with 2.13.0: not the same stack",
    ),
    (
        lambda c: stack(c, "candidate-again", effective={"cpu_capability": "AVX512"}),
        "INCONCLUSIVE",
        "candidate-again ran with cpu_capability AVX512, candidate with AVX2",
    ),
    (
        lambda c: c.plan["resume"]["controls"].pop(),
        "INCONCLUSIVE",
        "no control data-cursor-dropped",
    ),
    (
        lambda c: c.drop("resume", lambda r: isinstance(r, Step) and r.step > 149),
        "INCONCLUSIVE",
        "49 of 50 resumed steps recorded",
    ),
    (
        lambda c: c.drop("resume", lambda r: isinstance(r, Step) and r.step > 112),
        "INCONCLUSIVE",
        "12 of 20 next batches recorded",
    ),
    (lambda c: c.plan["resume"].update(steps=20), "INCONCLUSIVE", "20 of 50 resumed steps"),
    (
        lambda c: c.drop("resume", lambda r: isinstance(r, State)),
        "INCONCLUSIVE",
        "no state was recorded at the load of step 100",
    ),
    (
        lambda c: c.drop("candidate", lambda r: isinstance(r, State) and r.at == "save"),
        "INCONCLUSIVE",
        "no state was recorded at the save",
    ),
    (
        lambda c: [
            c.state_part(p, at, "lr", None) for p, at in (("candidate", "save"), ("resume", "load"))
        ],
        "INCONCLUSIVE",
        "no digest of lr",
    ),
    (lambda c: c.drop_kind("resume", Topology), "INCONCLUSIVE", "topology of a side"),
    (lambda c: c.drop_run("resume"), "INCONCLUSIVE", "the run resume left no records"),
    (lambda c: c.drop_run("candidate-again"), "INCONCLUSIVE", "candidate-again left no records"),
    (lambda c: c.plan.pop("resume"), "INCONCLUSIVE", "the plan has no resume"),
    (
        lambda c: c.drop("candidate-again", lambda r: isinstance(r, Step) and r.step > 120),
        "INCONCLUSIVE",
        "step 121 was not recorded by both uninterrupted runs",
    ),
]


@pytest.mark.parametrize("row", ROWS)
def test_bitwise_tier(row: Row) -> None:
    expect(GATE, row)


def noisy() -> Campaign:
    """Two uninterrupted runs that differ by rounding: the tolerance tier."""
    return Campaign().scale_loss("candidate-again", lambda n: 1 + 1e-6 * (-1) ** n)


def dropped(step: Step) -> Step:
    """A control that rounding could explain."""
    return with_values(step, loss=step.loss / 1.004 * (1 + 5e-4))


TOLERANCE: list[Row] = [
    (lambda c: None, "PASS", "tolerance tier"),
    (late_steps("resume", lambda k: 1 + 9e-6 * (-1) ** k), "PASS", "tolerance tier"),
    (late_steps("resume", lambda k: 1 + 1.1e-5 * (k == 1)), "FAIL", "step 101: loss is off by"),
    (late_steps("resume", lambda k: 1 + 9e-4 * (-1) ** k * (k > 1)), "PASS", ""),
    (
        late_steps("resume", lambda k: 1 + 1.1e-3 * (k == 9)),
        "FAIL",
        "step 109: loss is off by +0.0011",
    ),
    (late_steps("resume", lambda k: 1 - 2e-4 * (k > 1)), "FAIL", "mean difference -0.000196"),
    (late_steps("resume", lambda k: float("nan") if k == 5 else 1), "FAIL", "step 105"),
    (late_steps("resume", lambda k: float("inf") if k == 5 else 1), "FAIL", "step 105"),
    (lambda c: c.state_part("resume", "load", "params", "ff"), "FAIL", "params differs"),
    (lambda c: c.control("optimizer-dropped", dropped), "PASS", ""),
    (lambda c: c.without_fault("optimizer-dropped"), "FAIL", "does not notice optimizer-dropped"),
]


@pytest.mark.parametrize("row", TOLERANCE)
def test_tolerance_tier(row: Row) -> None:
    expect(GATE, row, noisy())


def test_noise_of_the_pair_widens_the_mean_only() -> None:
    campaign = Campaign().scale_loss("candidate-again", lambda n: 1 + 1e-4 * (-1) ** n)
    row: Row = (late_steps("resume", lambda k: 1 - 2e-4 * (k > 1)), "PASS", "tolerance tier")
    expect(GATE, row, campaign)


def test_a_difference_before_the_save_alone_decides_the_tier() -> None:
    campaign = Campaign().edit_step("candidate-again", 3, loss=5.0)
    assert "tolerance tier" in campaign.gate(GATE).reason


def test_the_saving_run_may_be_the_repetition() -> None:
    campaign = Campaign()
    saved = campaign.state("save", SAVE)
    campaign.drop("candidate", lambda r: isinstance(r, State) and r.at == "save")
    campaign.runs["candidate-again"][0].append(saved)
    expect(GATE, (lambda c: None, "PASS", ""), campaign)


def test_reduced_scale_needs_three_save_points() -> None:
    campaign = Campaign()
    campaign.plan["scale"] = "reduced"
    row: Row = (lambda c: None, "INCONCLUSIVE", "1 save point (epoch-boundary), this scale needs 3")
    expect(GATE, row, campaign)
    point = campaign.plan["resume"]
    campaign.plan["resume"] = [{**point, "save_point": p} for p in ("early", "after-warmup", "x")]
    expect(GATE, (lambda c: None, "PASS", "50, 50, 50 steps"), campaign)
    checks = {check.name for check in campaign.gate(GATE).checks}
    assert {"early: trajectory", "x: control optimizer-dropped"} <= checks
