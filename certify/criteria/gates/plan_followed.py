"""plan-followed: both sides trained on what the plan said, and every rank says the same.

Inputs are proven before outputs are compared: initial weights, tokens, masks, counts and learning
rate of every step, effective hyper-parameters, that the two sides do not share their code
(`identity`), and that each run is the one that the plan names (`identity`, `conditions`). A side
that departs FAILs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.criteria.case import (
    SIDES,
    Case,
    absent,
    relative_difference,
    trained,
    trained_from_start,
)
from certify.criteria.gates.conditions import condition_checks
from certify.criteria.gates.identity import freshness_checks, identity_checks, independence_checks
from certify.criteria.outcome import Check, Finding, none_of, undecided
from certify.records import Component

if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.criteria.evidence import Run
    from certify.criteria.plan import PlannedStep
    from certify.records import Step

_EXACT = ("tokens_sha256", "mask_sha256", "supervised_tokens", "tokens")
_EQUAL_ON_RANKS = (
    "loss_hex",
    "grad_norm_hex",
    "lr",
    "tokens",
    "supervised_tokens",
    "tokens_sha256",
    "mask_sha256",
    "batch",
    "routing_sha256",
)


def judge(case: Case) -> Finding:
    """Decide the gate; see the module's description."""
    checks = [_criteria_check(case), *absent(case, *SIDES)]
    for phase, run in trained_from_start(case):
        checks += [
            _weights_check(case, phase, run),
            _present_check(case, phase, run),
            _batches_check(case, phase, run),
            _rate_check(case, phase, run),
            _ranks_check(phase, run),
        ]
    for _, phase, run in trained(case):
        checks += _effective_checks(case, phase, run)
    checks += independence_checks(case)
    checks += freshness_checks(case)
    checks += condition_checks(case)
    checks += identity_checks(case)
    steps = len(case.plan.expected.steps)
    return Finding(
        tuple(checks),
        "candidate: batches",
        f"both sides began from the planned weights and used the planned batches, masks and "
        f"learning rate in each of {steps} steps",
    )


def _criteria_check(case: Case) -> Check:
    planned, used = case.plan.criteria, case.limits.criteria
    if (planned.version, planned.sha256) == (used.version, used.sha256):
        return none_of("criteria", [], 1, "judged by the criteria that the plan names")
    return undecided(
        "criteria",
        f"the plan names criteria {planned.version} {planned.sha256[:12]}, this judge has "
        f"{used.version} {used.sha256[:12]}",
        value=used.sha256,
        limit=planned.sha256,
    )


def _weights_check(case: Case, phase: str, run: Run) -> Check:
    name, expected = f"{phase}: initial weights", case.plan.expected.weights_digest
    found = [(rank, state.digests.get("params")) for rank, state in run.states("init")]
    if not found or all(digest is None for _, digest in found):
        return undecided(name, f"{phase} recorded no digest of its initial weights", limit=expected)
    departures = [
        f"{phase} rank {rank}: initial weights are {_short(digest)}, plan {_short(expected)}"
        for rank, digest in found
        if digest is not None and digest != expected
    ]
    return none_of(name, departures, len(found), "initial weights as planned")


def _present_check(case: Case, phase: str, run: Run) -> Check:
    """All planned steps are there. A repetition (``-again``) may stop early."""
    name = f"{phase}: steps present"
    if run.missing_ranks:
        return undecided(name, f"{phase} has no records of rank {_listed(run.missing_ranks)}")
    planned, found = [step.step for step in case.plan.expected.steps], run.steps
    if phase not in SIDES:
        planned = [step for step in planned if step <= max(found, default=0)]
    missing = [step for step in planned if step not in found]
    extra = [step for step in sorted(found) if step not in planned]
    interrupted = missing and not run.finished and min(missing) > max(found, default=0)
    if not found or interrupted:
        what = f"stopped after step {max(found)}" if found else "recorded no step"
        return undecided(name, f"{phase} {what} of {len(planned)} and did not complete")
    departures = [f"{phase} step {step}: not recorded" for step in missing]
    departures += [f"{phase} step {step}: not in the plan" for step in extra]
    return none_of(name, departures, len(planned), "all planned steps recorded")


def _planned(case: Case, run: Run) -> Iterable[tuple[PlannedStep, Step]]:
    found = run.steps
    return ((p, found[p.step]) for p in case.plan.expected.steps if p.step in found)


def _batches_check(case: Case, phase: str, run: Run) -> Check:
    departures: list[str] = []
    n = 0
    for planned, step in _planned(case, run):
        n += 1
        wanted = {key: getattr(planned, key) for key in _EXACT}
        wanted["batch"] = planned.step - 1 if planned.batch is None else planned.batch
        for key, value in wanted.items():
            if getattr(step, key) != value:
                departures.append(
                    f"{phase} step {step.step}: {key} is {_short(getattr(step, key))}, "
                    f"plan {_short(value)}"
                )
    return _unless_empty(f"{phase}: batches", departures, n, "batches and masks as planned")


def _rate_check(case: Case, phase: str, run: Run) -> Check:
    tolerance = case.limits.value("rate-relative")
    departures: list[str] = []
    n = 0
    for planned, step in _planned(case, run):
        n += 1
        # Not "> tolerance": a NaN rate must be a departure too.
        if not relative_difference(step.lr, planned.lr) <= tolerance:
            departures.append(f"{phase} step {step.step}: lr is {step.lr!r}, plan {planned.lr!r}")
    return _unless_empty(f"{phase}: learning rate", departures, n, "learning rate as planned")


def _effective_checks(case: Case, phase: str, run: Run) -> list[Check]:
    """Values read back from the live objects of every rank equal the plan's, and none is absent."""
    expected, name = case.plan.expected.effective, f"{phase}: effective values"
    if not expected:
        return [undecided(name, "the plan has no effective values to compare with")]
    tolerance = case.limits.value("effective-relative")
    departures: list[str] = []
    absent: list[str] = []
    n = 0
    for file in run.files:
        parts = file.of(Component)
        known = {key for part in parts for key in part.effective}
        absent += [
            f"{phase} rank {file.header.rank}: effective values lack {key}"
            for key in sorted(set(expected) - known)
        ]
        for part in parts:
            for key in sorted(set(expected) & set(part.effective)):
                n += 1
                if not _same(part.effective[key], expected[key], tolerance):
                    departures.append(
                        f"{phase} {part.part}: effective {key} is {part.effective[key]!r}, "
                        f"plan {expected[key]!r}"
                    )
    if absent and not departures:
        return [undecided(name, absent[0])]
    return [_unless_empty(name, departures, n, "effective values as planned")]


def _same(value: Any, expected: Any, tolerance: float) -> bool:
    numbers = (int, float)
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, numbers) and isinstance(expected, numbers):
        return relative_difference(value, expected) <= tolerance
    return bool(value == expected)


def _ranks_check(phase: str, run: Run) -> Check:
    """Loss, grad norm and digests are global values: each rank must report the same."""
    departures: list[str] = []
    first, n = run.files[0], 0
    expected = first.steps()
    for file in run.files[1:]:
        found = file.steps()
        for number in sorted(set(expected) | set(found)):
            n += 1
            departures += _rank_departures(phase, file.header.rank, number, expected, found)
    for at in ("init", "save", "end"):
        departures += [
            f"{phase} at {at}: {part} differs from another rank's"
            for part in run.digests(at)
            if " (rank " in part
        ]
    return none_of(f"{phase}: ranks agree", departures, n, "all ranks say the same")


def _rank_departures(
    phase: str, rank: int, number: int, expected: dict[int, Step], found: dict[int, Step]
) -> list[str]:
    if number not in expected or number not in found:
        return [f"{phase} step {number}: not recorded by every rank (rank {rank} differs)"]
    return [
        f"{phase} step {number}: rank {rank} has {key} {_short(getattr(found[number], key))}, "
        f"another rank {_short(getattr(expected[number], key))}"
        for key in _EQUAL_ON_RANKS
        if getattr(found[number], key) != getattr(expected[number], key)
    ]


def _unless_empty(name: str, departures: list[str], n: int, meaning: str) -> Check:
    if not n:
        return undecided(name, f"{name} were not recorded")
    return none_of(name, departures, n, meaning)


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
