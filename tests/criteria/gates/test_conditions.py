"""plan-followed: device, determinism, versions, seeded faults, collectives, ends, double steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from certify.records import Collective, End, Environment, Event, Header, Record, Step
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import STACK, Campaign, with_values

GATE = "plan-followed"
BOTH = ("candidate", "reference", "candidate-again", "reference-again", "resume")


def to(phase: str, kind: type, ranks: tuple[int, ...] | None = None, **values: Any) -> Any:
    return lambda c: c.edit(
        phase,
        lambda r: isinstance(r, kind),
        lambda r: dataclasses.replace(r, **values),
        ranks,
    )


def without(phase: str, kind: type, rank: int) -> Any:
    return lambda c: c.edit(phase, lambda r: isinstance(r, kind), lambda r: None, ranks=(rank,))


def insert(phase: str, after: type, record: Record, rank: int = 0) -> Any:
    """A further record behind the first of a kind."""

    def change(c: Campaign) -> None:
        body = c.runs[phase][rank]
        at = next(i for i, r in enumerate(body) if isinstance(r, after))
        body.insert(at + 1, record)

    return change


def fault(name: str) -> Event:
    return Event("fault_injected", 0, 1e9, {"fault": name, "side": "candidate"})


def planned_fault(c: Campaign) -> None:
    c.plan["inject"] = {"side": "candidate", "name": "lr-off-by-one"}
    insert("candidate", Environment, fault("lr-off-by-one"))(c)


def another_fault(c: Campaign) -> None:
    planned_fault(c)
    insert("candidate", Environment, fault("weights-scaled"))(c)


def fault_of_the_other_side(c: Campaign) -> None:
    planned_fault(c)
    insert("reference", Environment, fault("lr-off-by-one"))(c)


STEP = Campaign().step("candidate", 1)
AGAIN = with_values(STEP, loss=STEP.loss * 2)


def restarted(c: Campaign) -> None:
    """An elastic restart repeats steps behind a header of its own."""
    for rank, body in c.runs["candidate"].items():
        at = next(i for i, r in enumerate(body) if isinstance(r, Step) and r.step == 3)
        header = dataclasses.replace(c.header("candidate", rank), attempt=1, pid=7000 + rank)
        slower = dataclasses.replace(c.step("candidate", 2), step_time_s=9.0)
        body[at:at] = [header, slower]


NO_MODE = {"cpu_capability": "AVX2"}
ROWS: list[Row] = [
    (without("candidate", Environment, 1), "INCONCLUSIVE", "candidate rank 1 recorded no environ"),
    (without("reference", Environment, 0), "INCONCLUSIVE", "reference rank 0 recorded no environ"),
    (to("reference", Environment, device="cuda"), "FAIL", "reference ran on cuda, plan cpu"),
    (to("candidate", Environment, ranks=(1,), device="npu"), "FAIL", "ran on npu, plan cpu"),
    (to("resume", Environment, device="cuda"), "FAIL", "resume ran on cuda, plan cpu"),
    (
        to("candidate", Environment, effective={**STACK, "deterministic_algorithms": False}),
        "FAIL",
        "candidate rank 0: deterministic algorithms are False, the fp32 tier needs them",
    ),
    (
        to("reference", Environment, effective={**STACK, "deterministic_algorithms": "yes"}),
        "FAIL",
        "are 'yes'",
    ),
    (
        to("reference", Environment, effective=NO_MODE),
        "INCONCLUSIVE",
        "reference rank 0: deterministic algorithms were not recorded",
    ),
    (
        to("resume", Environment, packages={"torch": "2.12.0"}),
        "INCONCLUSIVE",
        "resume ran with torch 2.12.0, candidate with 2.13.0: not the same stack",
    ),
    (
        to("candidate", Environment, ranks=(1,), packages={}),
        "INCONCLUSIVE",
        "candidate ran with torch None",
    ),
    (
        to("reference-again", Environment, effective={**STACK, "cpu_capability": "AVX512"}),
        "INCONCLUSIVE",
        "reference-again ran with cpu_capability AVX512, reference with AVX2",
    ),
    (to("candidate-again", Environment, python="3.12.0"), "INCONCLUSIVE", "with Python 3.12.0"),
    # The sides may differ: their venvs do.
    (
        lambda c: [
            to(p, Environment, packages={"torch": "2.9"})(c)
            for p in ("reference", "reference-again")
        ],
        "PASS",
        "",
    ),
    (planned_fault, "PASS", ""),
    (another_fault, "FAIL", "candidate: the fault weights-scaled was injected"),
    (fault_of_the_other_side, "FAIL", "reference: the fault lr-off-by-one was injected"),
    (
        insert("candidate", Environment, fault("lr-off-by-one")),
        "FAIL",
        "the fault lr-off-by-one was injected, which the plan does not say",
    ),
    (without("candidate", Collective, 1), "INCONCLUSIVE", "candidate rank 1 recorded no self-test"),
    (without("resume", Collective, 0), "INCONCLUSIVE", "resume rank 0 recorded no self-test"),
    (
        to("candidate", Collective, ranks=(1,), ok=False, expected="3", found="2"),
        "FAIL",
        "candidate rank 1: all_reduce_sum of float32 in group world gave 2, expected 3",
    ),
    (
        insert("reference", Environment, Collective("all_gather", "world", "uint8", False)),
        "FAIL",
        "reference rank 0: all_gather",
    ),
    (without("candidate", End, 1), "INCONCLUSIVE", "candidate rank 1 did not record its end"),
    (without("compare", End, 0), "INCONCLUSIVE", "compare rank 0 did not record its end"),
    (without("reference-again", End, 0), "INCONCLUSIVE", "reference-again rank 0 did not record"),
    (
        to("candidate", End, ranks=(1,), status="failed", reason="out of memory"),
        "FAIL",
        "candidate rank 1: ended as failed (out of memory)",
    ),
    (to("reference", End, status="stopped"), "FAIL", "reference rank 0: ended as stopped"),
    (to("resume", End, exit_code=4), "FAIL", "resume rank 0: ended with exit code 4"),
    (to("compare", End, exit_code=1), "FAIL", "compare rank 0: ended with exit code 1"),
    (
        insert("candidate", Step, AGAIN),
        "FAIL",
        "candidate rank 0 step 1: recorded twice, with different values",
    ),
    (insert("candidate", Step, STEP), "PASS", ""),
    (restarted, "PASS", ""),
    (
        lambda c: c.controls["optimizer-dropped"][1].append(c.step("resume", 103)),
        "FAIL",
        "resume control optimizer-dropped rank 1 step 103: recorded twice",
    ),
]


@pytest.mark.parametrize("row", ROWS)
def test_table(row: Row) -> None:
    expect(GATE, row)


def test_one_rank_has_no_collective_to_test() -> None:
    campaign = Campaign(moe=False, world=1)
    assert not any(isinstance(r, Collective) for r in campaign.runs["candidate"][0])
    expect(GATE, (lambda c: None, "PASS", ""), campaign)


def test_bf16_needs_no_deterministic_algorithms() -> None:
    campaign = Campaign()
    campaign.plan["precision"] = "bf16"
    for phase in BOTH:
        to(phase, Environment, effective=NO_MODE)(campaign)
    expect(GATE, (lambda c: None, "PASS", ""), campaign)


def test_headers_of_a_restart_are_checked_too() -> None:
    campaign = Campaign()
    header = dataclasses.replace(campaign.header("candidate", 0), run_id="c7-x", attempt=1)
    assert isinstance(header, Header)
    insert("candidate", End, dataclasses.replace(header, pid=7000))(campaign)
    expect(GATE, (lambda c: None, "FAIL", "its header is of run c7-x"), campaign)
