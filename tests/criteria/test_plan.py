"""Reading a plan: strict where the judge reads it, silent about what it does not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from certify.criteria.plan import (
    PlannedFault,
    PlannedResume,
    PlannedSide,
    PlannedSides,
    parse_plan,
    read_plan,
)
from certify.errors import UsageError
from tests.criteria.synthetic import Campaign


def plan() -> dict[str, Any]:
    return Campaign(steps=3).plan


def test_what_a_plan_says_is_read() -> None:
    read = parse_plan(plan(), "plan.json")
    assert (read.scale, read.device, read.moe) == ("tiny", "cpu", True)
    assert [s.lr for s in read.expected.steps] == [s["lr"] for s in plan()["expected"]["steps"]]
    assert read.resume[0].save_step == 100
    assert parse_plan(json.loads(read.text()), "again") == read


def test_a_plan_may_say_more() -> None:
    body = plan()
    body["created"] = "then"
    body["expected"]["steps"][0]["note"] = "x"
    body["resume"]["why"] = "x"
    assert parse_plan(body, "p") == parse_plan(plan(), "p")


def test_sides_and_a_seeded_fault() -> None:
    body = plan()
    body["inject"] = {"side": "candidate", "name": "lr-off-by-one", "why": "x"}
    read = parse_plan(body, "p")
    assert read.inject == PlannedFault("candidate", "lr-off-by-one")
    assert read.sides == PlannedSides(PlannedSide("fsdp2", 2), PlannedSide("mcore", 1))
    assert parse_plan(json.loads(read.text()), "again") == read
    del body["inject"], body["sides"]
    read = parse_plan(body, "p")
    assert (read.inject, read.sides) == (None, None)


def test_several_or_no_resumes() -> None:
    body = plan()
    early = {"save_step": 5, "steps": 50, "save_point": "early", "phase": "resume-early"}
    body["resume"] = [body["resume"], early]
    assert parse_plan(body, "p").resume[1] == PlannedResume(5, 50, "early", (), "resume-early")
    del body["resume"]
    assert parse_plan(body, "p").resume == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.pop("scale"), "missing key 'scale'"),
        (lambda p: p.update(scale="huge"), "scale is 'huge'"),
        (lambda p: p.update(stage="rl"), "stage is 'rl'"),
        (lambda p: p.update(precision="fp8"), "precision is 'fp8'"),
        (lambda p: p.update(schema="certify.plan/9"), "schema 'certify.plan/9'"),
        (lambda p: p.update(moe="yes"), "'yes'"),
        (lambda p: p["runs"].update(candidate=None), "runs.candidate"),
        (lambda p: p["expected"]["steps"].pop(0), "count 1, 2, 3"),
        (lambda p: p["expected"].update(steps=[]), "count 1, 2, 3"),
        (lambda p: p["expected"]["steps"][1].update(lr="x"), "'x'"),
        (lambda p: p["expected"]["steps"][1].update(lr=10**400), "too large"),
        (lambda p: p["expected"]["steps"][1].pop("tokens"), "missing key 'tokens'"),
        (lambda p: p.update(expected=[1]), "list"),
        (lambda p: p.update(criteria=None), "criteria"),
        (lambda p: p.update(resume="none"), "resume"),
        (lambda p: p.update(inject={"side": "both", "name": "x"}), "inject.side is 'both'"),
        (lambda p: p.update(inject="x"), "inject"),
        (lambda p: p["sides"].pop("reference"), "missing key 'reference'"),
        (lambda p: p["sides"]["reference"].update(world_size=0), "sides.reference.world_size is 0"),
        (lambda p: p["sides"]["candidate"].update(world_size=2**40), "sides.candidate.world_size"),
        (lambda p: p["sides"]["candidate"].update(world_size="2"), "'2'"),
    ],
)
def test_what_is_wrong_is_named(change: Any, message: str) -> None:
    body = plan()
    change(body)
    with pytest.raises(UsageError) as caught:
        parse_plan(body, "here/plan.json")
    assert message in str(caught.value)
    assert "here/plan.json" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("[1]", "list"),
        ("[" * 100_000 + "]" * 100_000, "nested more than 100 levels deep"),
    ],
)
def test_an_unreadable_plan(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_plan(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
