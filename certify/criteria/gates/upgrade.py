"""upgrade: a checkpoint written on one stack goes on, on another, by the rule of a resume.

Two uninterrupted runs on the first stack decide the tier. The continued run must differ from them
in its stack, and in nothing that `resume` looks at. The numbers are those of the gate resume.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from certify.criteria.gates.conditions import end_check, same_stack_check, stack_of
from certify.criteria.gates.resume import continued_checks
from certify.criteria.outcome import Check, Finding, none_of, reported, undecided
from certify.criteria.plan import PlannedResume
from certify.records import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.criteria.case import Case
    from certify.criteria.evidence import Run
    from certify.criteria.plan import PlannedUpgrade


def judge(case: Case) -> Finding:
    """Decide the gate for the planned upgrade."""
    plan = case.plan.upgrade
    if plan is None:
        return Finding((undecided("plan", "the plan has no upgrade"),), "plan", "")
    legs = {
        name: case.evidence.hops.get(run)
        for name, run in (
            ("before", plan.before),
            ("before-again", plan.before_again),
            ("after", plan.after),
        )
    }
    missing = [
        undecided(f"records of {name}", f"the run {name} left no records")
        for name, run in legs.items()
        if run is None
    ]
    if missing:
        return Finding(tuple(missing), missing[0].name, "")
    runs = {name: run for name, run in legs.items() if run is not None}
    before, again, after = runs.values()
    by_resume = replace(case, limits=replace(case.limits, gate="resume"))
    resume = PlannedResume(plan.save_step, plan.steps, plan.save_point, plan.controls, "after")
    found, tier = continued_checks(by_resume, resume, before, again, after)
    checks = [
        _upgraded_check(before, after),
        *_stack_checks(plan, runs),
        same_stack_check("same stack before", [("before", before), ("before-again", again)]),
        *(end_check(name, run) for name, run in runs.items()),
        _identity_check(plan, runs),
        *found,
    ]
    return Finding(
        tuple(checks),
        "trajectory",
        f"{tier} tier: {_difference(_seen(before), _seen(after))}; state, batches and "
        f"{plan.steps} steps equal the uninterrupted run; every negative control is noticed",
    )


def _seen(run: Run) -> dict[str, Any]:
    """The stack of the lowest rank that recorded one."""
    return {} if run.environment is None else stack_of(run.environment)


def _difference(one: Mapping[str, Any], two: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {one.get(key)} -> {two.get(key)}"
        for key in sorted(set(one) | set(two))
        if one.get(key) != two.get(key)
    )


def _upgraded_check(before: Run, after: Run) -> Check:
    """Two equal stacks show nothing about an upgrade."""
    one, two = _seen(before), _seen(after)
    if not one or not two:
        return undecided("two stacks", "the stack of a side was not recorded")
    if text := _difference(one, two):
        return reported("two stacks", text, text)
    return undecided("two stacks", "both stacks are the same: nothing was upgraded")


def _stack_checks(plan: PlannedUpgrade, runs: Mapping[str, Run]) -> list[Check]:
    """Every rank ran on the versions that the plan names for it; both stacks are shown."""
    checks = []
    for name, run in runs.items():
        planned = plan.to_stack if name == "after" else plan.from_stack
        wrong, n = [], 0
        for file in run.files:
            for environment in file.of(Environment):
                seen = stack_of(environment) | {"python": environment.python}
                n += 1
                wrong += [
                    f"{name} rank {file.header.rank}: {key} {seen[key]}, planned {version}"
                    for key, version in planned.items()
                    if key in seen and seen[key] != version
                ]
        text = ", ".join(f"{key} {version}" for key, version in planned.items())
        check = none_of(f"{name}: stack", wrong, n, text)
        checks.append(check if n else undecided(f"{name}: stack", f"{name} recorded no stack"))
    return checks


def _identity_check(plan: PlannedUpgrade, runs: Mapping[str, Run]) -> Check:
    """The records are of the runs that the plan names, on all their ranks."""
    named = {"before": plan.before, "before-again": plan.before_again, "after": plan.after}
    wrong = [
        f"{name}: the records are of the run {file.header.run_id}"
        for name, run in runs.items()
        for file in run.files
        if file.header.run_id != run.run_id
    ]
    wrong += [
        f"{name}: rank {run.missing_ranks[0]} left no records"
        for name, run in runs.items()
        if run.missing_ranks
    ]
    return none_of("identity", wrong, len(named), "the runs that the plan names")
