"""worker-loss: every injection fired, was noticed and survived, and no batch was lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from certify.records import End, Environment, Event, State, Step
from tests.criteria.attacked import BEGAN, LAST, Attacked
from tests.criteria.synthetic import with_values


def is_step(n: int) -> Callable[[Any], bool]:
    return lambda r: isinstance(r, Step) and r.step == n


def named(name: str) -> Callable[[Any], bool]:
    return lambda r: isinstance(r, Event) and r.name == name


def every_agent(c: Attacked, to: Callable[[Event], Event | None]) -> None:
    for start in range(4):
        c.change(start, named("recovery_agent"), to)


def agent_gone(c: Attacked) -> None:
    every_agent(c, lambda _: None)


def agent_other(c: Attacked) -> None:
    every_agent(c, lambda e: dataclasses.replace(e, detail={**e.detail, "agent": "by hand"}))


def no_restarts(c: Attacked) -> None:
    every_agent(c, lambda e: dataclasses.replace(e, detail={**e.detail, "max_restarts": 0}))


def loaded_from(c: Attacked, start: int, step: int) -> None:
    """That start continued from an older checkpoint, and trained on from there."""
    for rank, starts in c.ranks.items():
        _, last, refused = ((0, 7, 0), (5, 16, 0), (10, 22, 1), (20, LAST, 0))[start]
        starts[start] = c._start(rank, start, step, last, refused)


def other_batch(record: Step) -> Step:
    return dataclasses.replace(record, tokens_sha256="ff" * 32)


ROWS: list[tuple[Callable[[Attacked], Any], str, str]] = [
    (lambda c: None, "PASS", "3 injections, 3 recoveries by torchrun c10d: every batch once"),
    (agent_gone, "INCONCLUSIVE", "rank 0 names no recovery agent"),
    (agent_other, "FAIL", "names another recovery agent than the plan"),
    (no_restarts, "INCONCLUSIVE", "rank 0 was started by nobody who restarts it"),
    (
        lambda c: c.event("injector", "injected", 2, drop=True),
        "INCONCLUSIVE",
        "injection 2 (corrupt-checkpoint) was not made: it proves nothing",
    ),
    (lambda c: c.event("injector", "injected", 1, fired=False), "INCONCLUSIVE", "did not take ef"),
    (lambda c: c.event("injector", "injected", 1, mark="data"), "FAIL", "mark is 'data', planned"),
    (lambda c: c.event("injector", "recovered", 3, drop=True), "FAIL", "(hang): the run did not g"),
    (lambda c: c.event("injector", "recovered", 3, orphans=2), "FAIL", "2 processes were left ov"),
    (lambda c: c.event("heartbeat", "rank_stuck", 3, drop=True), "FAIL", "heartbeat noticed noth"),
    (lambda c: c.event("heartbeat", "rank_stuck", 3, after_s=19), "PASS", "3 injections"),
    (
        lambda c: [
            c.event("heartbeat", "rank_stuck", 3, after_s=41),
            c.event("injector", "recovered", 3, after_s=60),
        ],
        "FAIL",
        "injection 3 (hang): noticed after 41.0 s",
    ),
    # Two intervals may be lost where a damaged checkpoint was refused, one elsewhere.
    (lambda c: loaded_from(c, 3, 15), "FAIL", "start 3: 7 steps lost, 5 lie between two saves"),
    (lambda c: loaded_from(c, 2, 5), "FAIL", "start 2: 11 steps lost, 10 lie"),
    (
        lambda c: c.change(
            1, lambda r: isinstance(r, State) and r.at == "load", lambda r: State("load", 5, {})
        ),
        "FAIL",
        "rank 0, start 1: the state of step 5 is not as it was saved",
    ),
    (lambda c: c.change(2, is_step(12), lambda _: None), "FAIL", "step 13 follows step 11"),
    (lambda c: c.change(3, is_step(LAST), lambda _: None), "FAIL", "step 30 is missing"),
    (
        lambda c: c.change(3, is_step(25), lambda r: dataclasses.replace(r, batch=3), rank=1),
        "FAIL",
        "rank 1: batch 3 was trained on twice",
    ),
    (lambda c: c.change(3, is_step(22), other_batch), "FAIL", "step 22: the batch is not that of"),
    (
        lambda c: c.change(1, is_step(9), lambda r: with_values(r, loss=r.loss * 1.01)),
        "FAIL",
        "the farthest is off by 0.0",
    ),
    (
        lambda c: c.change(3, lambda r: isinstance(r, End), lambda _: None),
        "INCONCLUSIVE",
        "its end",
    ),
    (
        lambda c: c.change(
            2,
            lambda r: isinstance(r, Environment),
            lambda r: dataclasses.replace(r, packages={"torch": "2.14.0"}),
        ),
        "INCONCLUSIVE",
        "not the same stack",
    ),
    (lambda c: c.plan.pop("worker_loss"), "INCONCLUSIVE", "the plan has no worker loss"),
    (lambda c: c.drop_run("candidate"), "INCONCLUSIVE", "the run candidate left no records"),
]


@pytest.mark.parametrize(("spoil", "verdict", "reason"), ROWS)
def test_verdicts(spoil: Callable[[Attacked], Any], verdict: str, reason: str) -> None:
    campaign = Attacked()
    spoil(campaign)
    result = campaign.gate("worker-loss")
    assert (result.verdict, reason in result.reason) == (verdict, True), result.reason


def test_times_to_notice_and_to_train_again_are_shown() -> None:
    checks = {check.name: check for check in Attacked().gate("worker-loss").checks}
    assert checks["injection 3 (hang): trained again after"].value == 20.0
    assert (
        "after 1.0 s (rank_stuck)"
        in checks["injection 3 (hang): noticed beyond the heartbeat"].detail
    )
    assert checks["losses equal bit for bit"].value == checks["losses equal bit for bit"].n


def test_alarms_without_an_injection_are_counted() -> None:
    campaign = Attacked()
    campaign.heartbeat.append(campaign._event("rank_stuck", 1, 60.0))
    checks = {check.name: check.value for check in campaign.gate("worker-loss").checks}
    assert checks["alarms without an injection"] == 1


def test_the_heartbeat_may_be_faster_than_the_injectors_own_record() -> None:
    campaign = Attacked().event("heartbeat", "rank_gone", 1, after_s=-0.2)
    assert campaign.gate("worker-loss").verdict == "FAIL"
    campaign.event("injector", "injected", 1, began_unix_s=BEGAN + 100 - 0.3)
    assert campaign.gate("worker-loss").verdict == "PASS"
