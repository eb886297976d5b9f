"""upgrade: a checkpoint of one stack goes on, on another, by the resume rule."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from certify.criteria.evidence import Evidence
from certify.criteria.judge import judge_gate
from certify.criteria.load import load_criteria
from certify.criteria.outcome import GateResult
from certify.criteria.plan import parse_plan
from certify.records import Environment, Header, Step
from tests.criteria.synthetic import RESUMED, SAVE, Campaign, with_values

LEGS = {"before": "candidate", "before_again": "candidate-again", "after": "resume"}
OLD = {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.2.0"}
NEW = {**OLD, "transformers": "5.24.0"}


def on_stack(c: Campaign, phase: str, versions: dict[str, str]) -> None:
    packages = {k: v for k, v in versions.items() if k != "python"}
    c.edit(
        phase,
        lambda r: isinstance(r, Environment),
        lambda r: dataclasses.replace(r, packages=packages),
    )


def upgraded() -> Campaign:
    c = Campaign()
    for phase in LEGS.values():
        on_stack(c, phase, NEW if phase == "resume" else OLD)
    c.plan["requested"] = ["upgrade"]
    c.plan["upgrade"] = {
        **{leg: f"c1-{phase}" for leg, phase in LEGS.items()},
        "save_step": SAVE,
        "steps": RESUMED,
        "save_point": "epoch-boundary",
        "controls": ["optimizer-dropped", "data-cursor-dropped"],
        "from_stack": OLD,
        "to_stack": NEW,
    }
    return c


def result(c: Campaign) -> GateResult:
    runs = c.evidence().runs
    hops = {run.run_id: run for run in runs.values()}
    plan = parse_plan(json.loads(json.dumps(c.plan)), "plan.json")
    return judge_gate("upgrade", plan, Evidence({}, hops=hops), load_criteria())


def late(phase: str, factor: float) -> Callable[[Campaign], Any]:
    return lambda c: c.edit(
        phase,
        lambda r: isinstance(r, Step) and r.step > SAVE + 3,
        lambda r: with_values(r, loss=r.loss * factor),
    )


def another_run(c: Campaign) -> Any:
    return c.edit(
        "resume",
        lambda r: isinstance(r, Header),
        lambda r: dataclasses.replace(r, run_id="c1-candidate"),
    )


ROWS: list[tuple[Callable[[Campaign], Any], str, str]] = [
    (lambda c: None, "PASS", "transformers 5.2.0 -> 5.24.0; state, batches and 50 steps equal"),
    (lambda c: c.plan.pop("upgrade"), "INCONCLUSIVE", "the plan has no upgrade"),
    (lambda c: c.drop_run("resume"), "INCONCLUSIVE", "the run after left no records"),
    (lambda c: c.drop_kind("resume", Environment), "INCONCLUSIVE", "after recorded no stack"),
    (lambda c: on_stack(c, "resume", OLD), "FAIL", "transformers 5.2.0, planned 5.24.0"),
    (lambda c: on_stack(c, "candidate-again", NEW), "FAIL", "transformers 5.24.0, planned 5.2.0"),
    (late("resume", 1 + 1e-9), "FAIL", f"step {SAVE + 4}: loss is 0x"),
    (lambda c: c.state_part("resume", "load", "exp_avg", None), "FAIL", "exp_avg: not loaded"),
    (lambda c: c.without_fault("optimizer-dropped"), "FAIL", "does not notice optimizer-dropped"),
    (another_run, "FAIL", "the records are of the run c1-candidate"),
]


@pytest.mark.parametrize(("spoil", "verdict", "reason"), ROWS)
def test_the_gate(spoil: Callable[[Campaign], Any], verdict: str, reason: str) -> None:
    c = upgraded()
    spoil(c)
    found = result(c)
    assert found.verdict == verdict, found.reason
    assert reason in found.reason


def test_equal_stacks_show_nothing() -> None:
    c = upgraded()
    on_stack(c, "resume", OLD)
    c.plan["upgrade"]["to_stack"] = OLD
    found = result(c)
    assert (found.verdict, found.required) == ("INCONCLUSIVE", True)
    assert "nothing was upgraded" in found.reason


def test_runs_that_do_not_repeat_have_tolerances() -> None:
    c = upgraded()
    late("candidate-again", 1 + 1e-7)(c)
    late("resume", 1 + 2e-7)(c)
    assert result(c).verdict == "PASS"
    assert result(c).reason.startswith("tolerance tier")
    late("resume", 1.01)(c)
    assert result(c).verdict == "FAIL"


def test_both_stacks_are_shown() -> None:
    shown = {check.name: check.detail for check in result(upgraded()).checks}
    assert "transformers 5.2.0" in shown["before: stack"]
    assert "transformers 5.24.0" in shown["after: stack"]
