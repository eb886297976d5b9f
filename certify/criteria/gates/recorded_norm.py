"""The gradient norm that each side recorded, which is the number that its clip uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.case import SIDES, Case, relative_difference
from certify.criteria.outcome import Check, at_most, undecided

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.records import Step

_FIRST = 1


def recorded_norm_checks(case: Case, values: Mapping[str, float | int | None]) -> list[Check]:
    """Step 1 of each side against its own gradients, and the sides against each other. values:
    of the comparison of gradients. A side without records is named by another check."""
    runs = {side: case.evidence.run(side) for side in SIDES}
    steps = {side: {} if run is None else run.steps for side, run in runs.items()}
    checks = [_own_check(case, side, steps[side], values.get(f"norm_{side}")) for side in SIDES]
    return [*checks, _first_check(case, steps), *_first_steps_check(case, steps)]


def _own_check(case: Case, side: str, steps: Mapping[int, Step], norm: float | None) -> Check:
    name, row = f"{side} recorded norm", case.limits["global-norm"]
    if norm is None:
        return undecided(name, f"the norm of the {side}'s gradients was not recorded")
    if _FIRST not in steps:
        return undecided(name, f"the {side} did not record step {_FIRST}")
    found = steps[_FIRST].grad_norm
    detail = (
        f"{side} recorded grad norm {found:.9g} in step {_FIRST}, its gradients have {norm:.9g}"
    )
    return at_most(name, relative_difference(found, norm), row, detail)


def _difference(steps: Mapping[str, Mapping[int, Step]], step: int) -> float | None:
    found = [steps[side].get(step) for side in SIDES]
    candidate, reference = found
    if candidate is None or reference is None:
        return None
    return relative_difference(candidate.grad_norm, reference.grad_norm)


def _first_check(case: Case, steps: Mapping[str, Mapping[int, Step]]) -> Check:
    value, name = _difference(steps, _FIRST), "recorded norms"
    if value is None:
        return undecided(name, f"step {_FIRST} was not recorded by both sides")
    detail = f"recorded grad norms of step {_FIRST} differ by {value:.3g}"
    return at_most(name, value, case.limits["global-norm"], detail)


def _first_steps_check(case: Case, steps: Mapping[str, Mapping[int, Step]]) -> list[Check]:
    row = case.limits.find("norm-first-steps")
    if row is None:
        return []
    name = "recorded norms, first steps"
    count = min(case.limits.whole("norm-first-steps-count"), len(case.plan.expected.steps))
    worst, where = 0.0, _FIRST
    for step in range(_FIRST, count + _FIRST):
        value = _difference(steps, step)
        if value is None:
            return [undecided(name, f"step {step} was not recorded by both sides")]
        # Not "value > worst": a NaN must win.
        if not value <= worst:
            worst, where = value, step
            if worst != worst:
                break
    detail = f"recorded grad norms differ by {worst:.3g} in step {where} of the first {count}"
    return [at_most(name, worst, row, detail, n=count)]
