"""Gates that tiny only reports: their numbers are shown and never decide."""

from __future__ import annotations

import pytest

from certify.records import Component, Environment, Step
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import Campaign

NOT = "NOT REQUIRED"


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ("throughput", "median step 0.1 s, 5120 tokens/s over 180 steps"),
        ("memory", "peak 1,000 bytes on one rank, grown by 0 bytes after step 20"),
        ("neutrality", "stock; candidate model: transformers.models.qwen3_moe"),
        ("environment", "candidate: Python 3.11.7 on CPU; torch 2.13.0; reference: Python"),
        ("sft-extras", "pretraining supervises every token"),
        ("reshard", "on request, and nightly"),
        ("worker-loss", "nightly"),
        ("cross-backend", "on request"),
        ("upgrade", "on request"),
    ],
)
def test_tiny_reports(gate: str, reason: str) -> None:
    expect(gate, (lambda c: None, NOT, reason))


def test_numbers_follow_the_records() -> None:
    campaign = Campaign()
    for n in range(21, 201):
        campaign.edit_step("candidate", n, step_time_s=0.2, peak_bytes=1000 + n)
    assert campaign.gate("throughput").statistic == 0.2
    memory = {check.name: check.value for check in campaign.gate("memory").checks}
    assert (memory["peak"], memory["growth"]) == (1200, 179)


def test_a_class_of_its_own_is_registered() -> None:
    import dataclasses

    campaign = Campaign().edit(
        "candidate",
        lambda r: isinstance(r, Component) and r.part == "model",
        lambda r: dataclasses.replace(r, package="ours", module="ours.model"),
    )
    assert campaign.gate("neutrality").statistic == "registered"


NOTHING: list[tuple[str, Row]] = [
    ("throughput", (lambda c: c.drop_kind("candidate", Step), NOT, "seconds on a CPU")),
    ("memory", (lambda c: c.drop_run("candidate"), NOT, "memory of a CPU")),
    ("neutrality", (lambda c: [c.drop_run("candidate"), c.drop_run("reference")], NOT, "report")),
    ("environment", (lambda c: c.drop_kind("candidate", Environment), NOT, "reference: Python")),
]


@pytest.mark.parametrize(("gate", "row"), NOTHING)
def test_without_records_they_stay_quiet(gate: str, row: Row) -> None:
    expect(gate, row)


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ("environment", "no verdict of check-env"),
        ("throughput", "no baseline runs in ABBA order"),
        ("memory", "no baseline and no device size"),
        ("reshard", "the plan has no reshard"),
        ("worker-loss", "the plan has no worker loss"),
    ],
)
def test_where_they_are_required_they_need_their_records(gate: str, reason: str) -> None:
    campaign = Campaign()
    campaign.plan["scale"] = "reduced"
    expect(gate, (lambda c: None, "INCONCLUSIVE", reason), campaign)
    assert campaign.judge().verdict == "INCONCLUSIVE"


def test_a_gate_that_was_asked_for_is_required() -> None:
    campaign = Campaign()
    campaign.plan["requested"] = ["reshard"]
    result = campaign.gate("reshard")
    assert (result.verdict, result.required) == ("INCONCLUSIVE", True)
    assert campaign.judge().verdict == "INCONCLUSIVE"
    # Asking does not turn a report into a gate.
    campaign.plan["requested"] = ["throughput"]
    assert campaign.judge().verdict == "PASS"
