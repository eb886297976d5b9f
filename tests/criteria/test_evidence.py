"""Reading a campaign folder: what files say, and what is wrong with them, by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from certify.criteria.evidence import Evidence, read_evidence
from certify.errors import UsageError
from certify.records import Comparison
from tests.criteria.synthetic import Campaign


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Campaign(steps=3).write(tmp_path_factory.mktemp("campaign"))


def read(folder: Path) -> Evidence:
    return read_evidence(folder, Campaign(steps=3).parsed())


def test_files_say_what_was_written(folder: Path) -> None:
    found, expected = read(folder), Campaign(steps=3).evidence()
    assert set(found.runs) == set(expected.runs)
    for phase, run in found.runs.items():
        assert [f.records for f in run.files] == [f.records for f in expected.runs[phase].files]
    assert sorted(found.runs["resume"].controls) == ["data-cursor-dropped", "optimizer-dropped"]
    assert found.runs["candidate"].world_size == 2
    assert found.runs["candidate"].finished


def test_a_phase_that_never_ran_is_absent(folder: Path) -> None:
    plan = Campaign(steps=3)
    plan.plan["runs"]["candidate"] = "c1-other"
    assert read_evidence(folder, plan.parsed()).run("candidate") is None


def test_the_last_attempt_counts_and_attempts_are_kept(tmp_path: Path) -> None:
    campaign = Campaign(steps=3).write(tmp_path)
    runs = tmp_path / "runs"
    for number in (2, 10):
        (runs / "c1-candidate").rename(runs / f"c1-candidate-a{number}") if number == 10 else (
            runs / "c1-candidate-a2" / "records"
        ).mkdir(parents=True)
    run = read(campaign).run("candidate")
    assert run is not None
    assert (run.run_id, run.attempts) == ("c1-candidate-a10", 10)
    # A plan that was brought up to date names the attempt itself.
    named = Campaign(steps=3)
    named.plan["runs"]["candidate"] = "c1-candidate-a10"
    assert read_evidence(campaign, named.parsed()).run("candidate") == run


def test_the_last_comparison_of_a_gate_counts() -> None:
    campaign = Campaign(steps=3)
    later = Comparison("routing", {"first_difference_step": 2}, {}, {})
    campaign.runs["compare"][0].append(later)
    assert campaign.evidence().comparison("routing") == later
    assert campaign.drop_run("compare").evidence().comparison("routing") is None


def test_ranks_that_contradict_each_other_never_look_equal() -> None:
    campaign = Campaign(steps=3).state_part("candidate", "init", "lr", "ff")
    campaign.runs["candidate"][1][8:9] = [campaign.state("init", 0)]
    digests = campaign.evidence().runs["candidate"].digests("init")
    assert "lr (rank 1)" in digests


def line(path: Path, number: int, change: Any) -> None:
    lines = path.read_text().splitlines()
    body = json.loads(lines[number])
    change(body)
    lines[number] = json.dumps(body)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("run", "number", "change", "message"),
    [
        ("candidate", 0, lambda b: b.update(rank=1), "header says rank 1"),
        (
            "candidate",
            0,
            lambda b: b.update(world_size=2**40),
            "header.world_size is 1099511627776",
        ),
        ("candidate", 0, lambda b: b.update(world_size=0), "header.world_size is 0"),
        ("candidate", 8, lambda b: b["digests"].update(params=3), "params is 3, not a digest"),
        ("candidate", 6, lambda b: b["loaded"].append(3), "3 is not a name"),
        ("candidate", 9, lambda b: b.update(loss="low"), "step.loss is 'low'"),
        ("candidate", 9, lambda b: b.update(loss=10**400), "step.loss is too large a number"),
        ("compare", 1, lambda b: b["values"].update(rows=10**400), "rows is too large a number"),
        ("compare", 1, lambda b: b["values"].update(rows="x"), "rows is 'x', not a number"),
        ("compare", 1, lambda b: b["values"].update(rows=True), "rows is True, not a number"),
        ("compare", 2, lambda b: b["classes"].update(norm=1), "norm is not an object"),
        ("compare", 2, lambda b: b["classes"]["norm"].update(error=[]), "norm.error is []"),
    ],
)
def test_malformed_records_are_named(
    tmp_path: Path, run: str, number: int, change: Any, message: str
) -> None:
    campaign = Campaign(steps=3).write(tmp_path)
    path = tmp_path / "runs" / f"c1-{run}" / "records" / "rank-00000.jsonl"
    line(path, number, change)
    with pytest.raises(UsageError) as caught:
        read(campaign)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
