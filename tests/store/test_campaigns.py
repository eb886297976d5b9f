"""What the store remembers of a campaign, and which changes it refuses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from certify.errors import InfrastructureError, UsageError
from certify.store import Gate, Reference, open_store
from certify.store.base import SILENT_AFTER_S
from certify.store.campaigns import Store
from certify.store.models import CampaignRow
from tests.store.conftest import new_campaign

VERDICT = {
    "verdict": "FAIL",
    "gates": [
        {
            "gate": "loss curve",
            "verdict": "FAIL",
            "required": True,
            "statistic": 0.004,
            "low": 0.0035,
            "high": 0.0045,
            "margin": 0.002,
            "n": 200,
            "reason": "drift outside the margin",
        },
        {
            "gate": "finite",
            "verdict": "PASS",
            "required": False,
            "statistic": float("nan"),
            "low": None,
            "high": float("inf"),
            "margin": None,
            "n": None,
            "reason": "",
        },
    ],
}


def age_process(store: Store, campaign_id: str, **columns: object) -> None:
    """Overwrite columns of a campaign's row, as if another process had written it."""

    def work(session):
        row = session.get(CampaignRow, campaign_id)
        for name, value in columns.items():
            setattr(row, name, value)

    store.database.write(work)


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_life_of_a_campaign(store):
    created = store.create_campaign(new_campaign("c1"))
    assert (created.status, created.verdict, created.pid) == ("reserved", None, os.getpid())
    store.set_plan("c1", "p" * 64)
    reserved = store.reserve_runs(
        "c1", [("c1-reference", "reference", "reference"), ("c1-candidate", "candidate", "x")]
    )
    assert [(run.id, run.status, run.attempt) for run in reserved] == [
        ("c1-reference", "reserved", 1),
        ("c1-candidate", "reserved", 1),
    ]
    started = store.start_run("c1-reference", 4711)
    assert (started.status, started.pid) == ("running", 4711)
    assert store.get_campaign("c1").status == "running"
    ended = store.finish_run(
        "c1-reference", "completed", steps=200, wall_s=12.5, cpu_s=24.0, exit_code=0
    )
    assert (ended.steps, ended.wall_s, ended.cpu_s, ended.exit_code) == (200, 12.5, 24.0, 0)
    store.finish_run("c1-candidate", "failed", exit_code=-9, reason="killed")
    finished = store.finish_campaign("c1", VERDICT)
    assert (finished.status, finished.verdict) == ("completed", "FAIL")
    assert store.gates("c1") == [
        Gate(
            campaign_id="c1",
            gate="loss curve",
            verdict="FAIL",
            required=True,
            statistic=0.004,
            low=0.0035,
            high=0.0045,
            margin=0.002,
            n=200,
            reason="drift outside the margin",
        ),
        Gate("c1", "finite", "PASS", False, None, None, float("inf"), None, None, ""),
    ]


def test_it_is_all_there_after_reopening(store):
    store.create_campaign(new_campaign("c1", inject="lr-off-by-one"))
    store.reserve_runs("c1", [("c1-resume", "resume", "candidate")])
    before = (store.get_campaign("c1"), store.runs("c1"))
    with open_store() as again:
        assert (again.get_campaign("c1"), again.runs("c1")) == before
    assert before[0].inject == "lr-off-by-one"


def test_a_second_run_of_a_phase_is_its_second_attempt(store):
    store.create_campaign(new_campaign("c1"))
    store.reserve_runs("c1", [("a", "candidate", "candidate"), ("b", "resume", "candidate")])
    (run,) = store.reserve_runs("c1", [("a-a2", "candidate", "candidate")])
    assert run.attempt == 2
    assert [found.id for found in store.runs("c1")] == ["a", "b", "a-a2"]


def test_reserving_is_all_or_nothing(store):
    store.create_campaign(new_campaign("c1"))
    store.reserve_runs("c1", [("a", "candidate", "candidate")])
    with pytest.raises(UsageError, match="'a' exists already"):
        store.reserve_runs("c1", [("b", "resume", "candidate"), ("a", "judge", "certify")])
    assert [run.id for run in store.runs("c1")] == ["a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.create_campaign(new_campaign("c1")), "'c1' exists already"),
        (lambda s: s.get_campaign("c9"), "no campaign 'c9'"),
        (lambda s: s.start_run("r9", 1), "no run 'r9'"),
    ],
)
def test_wrong_ids_are_usage_errors(store, change, message):
    store.create_campaign(new_campaign("c1"))
    with pytest.raises(UsageError, match=message):
        change(store)


def test_what_has_ended_does_not_change(store):
    store.create_campaign(new_campaign("c1"))
    store.reserve_runs("c1", [("r1", "candidate", "candidate")])
    store.set_plan("c1", "p1")
    with pytest.raises(InfrastructureError, match="another plan"):
        store.set_plan("c1", "p2")
    with pytest.raises(ValueError, match="does not end as"):
        store.finish_run("r1", "running")
    store.finish_run("r1", "aborted")
    with pytest.raises(InfrastructureError, match="'r1' is aborted"):
        store.start_run("r1", 1)
    with pytest.raises(InfrastructureError, match="'r1' is aborted"):
        store.finish_run("r1", "completed")
    store.finish_campaign("c1", VERDICT)
    for change in (
        lambda: store.finish_campaign("c1", VERDICT),
        lambda: store.reserve_runs("c1", [("r2", "judge", "certify")]),
        lambda: store.mark_interrupted("c1"),
        lambda: store.fail_campaign("c1", "x"),
        lambda: store.resume_campaign("c1"),
    ):
        with pytest.raises(InfrastructureError, match="'c1' is completed"):
            change()


@pytest.mark.parametrize("end", ["mark_interrupted", "fail_campaign"])
def test_ending_early_aborts_what_ran_and_keeps_what_was_reserved(store, end):
    store.create_campaign(new_campaign("c1"))
    store.reserve_runs("c1", [(name, name, "candidate") for name in ("done", "on", "next")])
    store.start_run("done", 1)
    store.finish_run("done", "completed")
    store.start_run("on", 2)
    ended = getattr(store, end)("c1", "Ctrl-C")
    assert ended.reason == "Ctrl-C"
    assert [(run.id, run.status, run.reason) for run in store.runs("c1")] == [
        ("done", "completed", ""),
        ("on", "aborted", "Ctrl-C"),
        ("next", "reserved", ""),
    ]
    assert store.resume_campaign("c1").status == "running"
    store.reserve_runs("c1", [("on-a2", "on", "candidate")])
    assert [store.start_run(name, 3).attempt for name in ("on-a2", "next")] == [2, 1]


def test_the_page_is_a_run_after_the_verdict(store):
    store.create_campaign(new_campaign("c1"))
    store.reserve_runs("c1", [("r1", "report", "certify")])
    store.finish_campaign("c1", VERDICT)
    store.start_run("r1", 1)
    store.finish_run("r1", "completed")
    assert store.get_campaign("c1").status == "completed"


def test_a_process_that_lost_its_campaign_starts_nothing_more(store):
    store.create_campaign(new_campaign("c1"))
    store.reserve_runs("c1", [("r1", "candidate", "candidate")])
    store.mark_interrupted("c1")
    with pytest.raises(InfrastructureError, match="'c1' is interrupted"):
        store.start_run("r1", 1)


def test_a_campaign_whose_process_is_gone_shows_as_interrupted_and_is_resumed_once(store):
    store.create_campaign(new_campaign("c1"))
    store.reserve_runs("c1", [("r1", "candidate", "candidate")])
    store.start_run("r1", 1)
    assert store.find_interrupted("k1") == [], "our own process lives"
    with pytest.raises(InfrastructureError, match="is running, not interrupted"):
        store.resume_campaign("c1")

    age_process(store, "c1", pid=dead_pid())
    assert store.get_campaign("c1").status == "interrupted"
    assert [c.id for c in store.campaigns(status="interrupted")] == ["c1"]
    assert store.campaigns(status="running") == []
    assert store.find_interrupted("other key") == []
    assert [c.id for c in store.find_interrupted("k1")] == ["c1"]

    resumed = store.resume_campaign("c1")
    assert (resumed.status, resumed.pid) == ("running", os.getpid())
    assert [run.status for run in store.runs("c1")] == ["aborted"]
    with pytest.raises(InfrastructureError, match="is running, not interrupted"):
        store.resume_campaign("c1")


def test_a_pid_that_was_used_again_is_not_the_process_that_ran_the_campaign(store):
    store.create_campaign(new_campaign("c1"))
    start = store.database.read(lambda s: s.get(CampaignRow, "c1").process_start)
    boot, namespace, ticks = start.split(" ")
    age_process(store, "c1", process_start=f"{boot} {namespace} {int(ticks) - 1}")
    assert store.get_campaign("c1").status == "interrupted"


def test_a_campaign_on_another_host_is_interrupted_when_it_falls_silent(store):
    now = [1_000_000.0]
    watched = Store(store.database, clock=lambda: now[0])
    watched.create_campaign(new_campaign("c1"))
    age_process(store, "c1", host="another")
    now[0] += SILENT_AFTER_S - 1
    assert watched.get_campaign("c1").status == "reserved"
    watched.heartbeat("c1")
    now[0] += 2
    assert watched.get_campaign("c1").status == "reserved"
    now[0] += SILENT_AFTER_S
    assert watched.get_campaign("c1").status == "interrupted"


def test_lists_are_newest_first_and_filtered(store):
    clock = iter(range(100))
    ordered = Store(store.database, clock=lambda: float(next(clock)))
    for name, recipe in (("c1", "a"), ("c2", "b"), ("c3", "a")):
        ordered.create_campaign(new_campaign(name, recipe_id=recipe))
    ordered = Store(store.database, clock=lambda: 3.0)
    assert [c.id for c in ordered.campaigns()] == ["c3", "c2", "c1"]
    assert [c.id for c in ordered.campaigns(recipe_id="a", limit=1)] == ["c3"]
    ordered.mark_interrupted("c1")
    ordered.mark_interrupted("c3")
    assert [c.id for c in ordered.find_interrupted("k1")] == ["c3", "c1"]
    assert ordered.counts() == {
        "campaigns": 3,
        "runs": 0,
        "gate_results": 0,
        "reference_cache": 0,
        "campaigns.interrupted": 2,
        "campaigns.reserved": 1,
    }


def test_references_are_replaced_and_forgotten(store):
    assert store.get_reference("d") is None
    store.put_reference("d", "/r/1")
    replaced = store.put_reference("d", "/r/2", aa_sd=1e-7)
    assert store.get_reference("d") == replaced
    assert replaced == Reference("d", "/r/2", replaced.created_unix_s, 1e-7)
    store.forget_reference("d")
    store.forget_reference("d")
    assert store.get_reference("d") is None
