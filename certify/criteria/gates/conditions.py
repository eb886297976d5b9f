"""Under what a run ran and how it ended: device, determinism, versions, faults, collectives.

What is missing decides nothing; what contradicts the plan is a departure.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from certify.criteria.case import SIDES, Case, trained
from certify.criteria.outcome import Check, none_of, undecided
from certify.records import Collective, End, Environment, Event, Header, Step

if TYPE_CHECKING:
    from certify.criteria.evidence import Run
    from certify.records import RecordFile


def condition_checks(case: Case) -> list[Check]:
    """The checks of every run that trained, then those of each side's runs together."""
    checks = []
    for side, phase, run in trained(case):
        checks += [
            _device_check(case, phase, run),
            *_deterministic_check(case, phase, run),
            _fault_check(case, side, phase, run),
            _collectives_check(side, phase, run),
            _repeated_check(phase, run),
            end_check(phase, run),
        ]
    if (compare := case.evidence.run("compare")) is not None:
        checks.append(end_check("compare", compare))
    for side in SIDES:
        runs = [(phase, run) for s, phase, run in trained(case) if s == side]
        checks.append(same_stack_check(f"{side}: same stack", runs))
    return checks


def _decided(name: str, wrong: list[str], missing: list[str], n: int, meaning: str) -> Check:
    """A contradiction is a departure even where other evidence is missing."""
    return (
        undecided(name, missing[0]) if missing and not wrong else none_of(name, wrong, n, meaning)
    )


def _device_check(case: Case, phase: str, run: Run) -> Check:
    wrong, missing = [], []
    for file in run.files:
        found = file.of(Environment)
        if not found:
            missing.append(f"{phase} rank {file.header.rank} recorded no environment")
        wrong += [
            f"{phase} ran on {environment.device}, plan {case.plan.device}"
            for environment in found
            if environment.device != case.plan.device
        ]
    return _decided(f"{phase}: device", wrong, missing, len(run.files), "device as planned")


def _deterministic_check(case: Case, phase: str, run: Run) -> list[Check]:
    """The fp32 tier compares with deterministic algorithms only."""
    if case.plan.precision != "fp32":
        return []
    wrong, missing = [], []
    for file in run.files:
        for environment in file.of(Environment):
            value = environment.effective.get("deterministic_algorithms")
            text = f"{phase} rank {file.header.rank}: deterministic algorithms"
            if value is None:
                missing.append(f"{text} were not recorded")
            elif value is not True:
                wrong.append(f"{text} are {value!r}, the fp32 tier needs them")
    name = f"{phase}: deterministic"
    return [_decided(name, wrong, missing, len(run.files), "deterministic algorithms in force")]


def _fault_check(case: Case, side: str, phase: str, run: Run) -> Check:
    """A run tells of a fault that was seeded into it: only of the one that the plan names."""
    planned = case.plan.inject
    wrong = []
    for file in run.files:
        for event in file.of(Event):
            if event.name != "fault_injected":
                continue
            fault = event.detail.get("fault")
            if planned is None or planned.side != side or planned.name != fault:
                wrong.append(
                    f"{phase}: the fault {fault} was injected, which the plan does not say"
                )
    return none_of(f"{phase}: seeded faults", wrong, len(run.files), "no fault beside the plan's")


def _collectives_check(side: str, phase: str, run: Run) -> Check:
    wrong, missing, n = [], [], 0
    for file in run.files:
        found = file.of(Collective)
        n += len(found)
        where = f"{phase} rank {file.header.rank}"
        if not found and side == "candidate" and run.world_size > 1:
            missing.append(f"{where} recorded no self-test of its collectives")
        wrong += [
            f"{where}: {test.op} of {test.dtype} in group {test.group} gave "
            f"{test.found or 'something else'}, expected {test.expected or 'what arithmetic gives'}"
            for test in found
            if not test.ok
        ]
    return _decided(f"{phase}: collectives", wrong, missing, n, "collectives agree with arithmetic")


def repeated_steps(file: RecordFile) -> list[int]:
    """Steps that one attempt recorded twice, with different values."""
    wrong: list[int] = []
    seen: dict[int, Step] = {}
    for record in file.records:
        if isinstance(record, Header):
            seen = {}
        # repr: a NaN is equal to its own copy.
        elif isinstance(record, Step) and repr(seen.setdefault(record.step, record)) != repr(
            record
        ):
            wrong.append(record.step)
    return wrong


def _repeated_check(phase: str, run: Run) -> Check:
    streams = {"": run.files} | {f"control {name} ": files for name, files in run.controls.items()}
    wrong = [
        f"{phase} {label}rank {file.header.rank} step {step}: recorded twice, with different values"
        for label, files in streams.items()
        for file in files
        for step in repeated_steps(file)
    ]
    return none_of(f"{phase}: one record a step", wrong, len(run.files), "no step recorded twice")


def end_check(phase: str, run: Run) -> Check:
    """Every rank says itself that it completed."""
    wrong, missing = [], []
    for file in run.files:
        where, end = f"{phase} rank {file.header.rank}", file.last(End)
        if end is None:
            missing.append(f"{where} did not record its end: it was interrupted")
        elif end.status != "completed":
            reason = f" ({end.reason})" if end.reason else ""
            wrong.append(f"{where}: ended as {end.status}{reason}")
        elif end.exit_code != 0:
            wrong.append(f"{where}: ended with exit code {end.exit_code}")
    return _decided(f"{phase}: end", wrong, missing, len(run.files), "completed on every rank")


def same_stack_check(name: str, runs: list[tuple[str, Run]]) -> Check:
    """Runs that are compared bit for bit used the same versions and the same kernels."""
    first: tuple[str, dict[str, Any]] | None = None
    for phase, run in runs:
        for environment in (e for file in run.files for e in file.of(Environment)):
            stack = stack_of(environment)
            if first is None:
                first = phase, stack
            for key in sorted(set(stack) | set(first[1])):
                one, two = first[1].get(key), stack.get(key)
                if one != two:
                    text = f"{phase} ran with {key} {two}, {first[0]} with {one}"
                    return undecided(name, f"{text}: not the same stack")
    if first is None:
        return undecided(name, "no environment was recorded")
    return none_of(name, [], len(runs), "the same stack in every run")


def stack_of(environment: Environment) -> dict[str, Any]:
    """Python, versions and kernels of one rank: what decides equality bit for bit."""
    body = dataclasses.asdict(environment)
    capability = body["effective"].get("cpu_capability")
    return {"Python": body["python"], **body["packages"], "cpu_capability": capability}
