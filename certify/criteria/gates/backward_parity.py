"""backward-parity: the gradients of step 1 agree per class of parameters, not only in total.

Faults in the scaling of one class (experts, router, norms) are invisible in the loss and small in
the global norm, so each class is judged on its own. The criterion must also notice a tensor that
is merely rolled by one row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from certify.criteria.case import SIDES, Case
from certify.criteria.gates.recorded_norm import recorded_norm_checks
from certify.criteria.outcome import (
    OK,
    VIOLATED,
    Check,
    Finding,
    at_least,
    at_most,
    count_text,
    none_of,
    undecided,
)

if TYPE_CHECKING:
    from certify.records import Comparison

GATE = "backward-parity"


def judge(case: Case) -> Finding:
    """Decide the gate from the comparison of both sides' gradients of step 1."""
    comparison = case.evidence.comparison(GATE)
    if comparison is None:
        missing = undecided("comparison", "no comparison of the two sides' gradients was recorded")
        return Finding((missing,), "comparison", "")
    classes = [_class_check(case, comparison, name) for name in sorted(comparison.classes)]
    worst = max(classes, key=lambda check: _share_of_limit(check), default=None)
    total = comparison.values.get("norm_relative_difference")
    norm = at_most("global norm", total, case.limits["global-norm"], _norm_detail(total))
    checks = [
        *classes,
        *missing_classes(case, comparison),
        *complete_checks(comparison),
        norm,
        _rolled_check(case, comparison),
        *_ranks_checks(case),
        *recorded_norm_checks(case, comparison.values),
    ]
    return Finding(
        tuple(checks),
        norm.name if worst is None else worst.name,
        f"gradients of step 1 agree in {len(classes)} classes of parameters and in their norm"
        + ("" if worst is None else f"; {worst.name} differs most"),
    )


def _share_of_limit(check: Check) -> float:
    if isinstance(check.value, float) and isinstance(check.limit, float) and check.limit:
        return check.value / check.limit
    return 0.0


def _norm_detail(total: float | None) -> str:
    return "" if total is None else f"global gradient norm differs by {total:.3g}"


def _class_check(case: Case, comparison: Comparison, name: str) -> Check:
    """fp32: the two sides against each other; bf16: each against higher precision, by a factor."""
    values, limits = comparison.classes[name], case.limits
    if row := limits.find("relative-error"):
        error, own, limit = values.get("error"), None, row.value
    else:
        error, own = values.get("candidate_error"), values.get("reference_error")
        limit = limits.value("error-ratio") * max(own or 0.0, limits.value("error-floor"))
        error = None if own is None else error
    if error is None:
        return undecided(name, f"gradient error of {name} was not recorded", limit=limit)
    outcome = OK if error <= limit else VIOLATED
    detail = f"{name}: relative gradient error {error:.3g}"
    if own is not None:
        detail += f", reference's own {own:.3g}"
    return Check(name, outcome, float(error), limit, detail, "relative")


def missing_classes(case: Case, comparison: Comparison) -> list[Check]:
    """Classes that a model of this kind must have and that nobody compared."""
    return [
        undecided(name, f"no parameters of class {name} were compared")
        for name in case.limits.names("classes")
        if name not in comparison.classes
    ]


def complete_checks(comparison: Comparison) -> list[Check]:
    """Both sides have the same tensors, and all are finite."""
    values, wrong = comparison.values, []
    for key, what in (
        ("n_missing", "tensors are missing in the candidate"),
        ("n_extra", "tensors are in the candidate only"),
        ("n_other_shape", "tensors have another shape"),
        ("n_without_initial", "tensors have no initial value to compare with"),
        ("nonfinite_candidate", "elements of the candidate are NaN or infinite"),
        ("nonfinite_reference", "elements of the reference are NaN or infinite"),
    ):
        if count := values.get(key):
            wrong.append(f"{count_text(count)} {what}")
    tensors = values.get("n_tensors")
    if tensors is None:
        return [undecided("same tensors", "the number of compared tensors was not recorded")]
    n = int(tensors) if math.isfinite(tensors) else 0
    return [none_of("same tensors", wrong, n, f"{count_text(tensors)} tensors on both sides")]


def _rolled_check(case: Case, comparison: Comparison) -> Check:
    """A rolled copy of any tensor must lie beyond the limit, else the criterion sees nothing."""
    error = comparison.values.get("rolled_error_min")
    detail = "the rolled copy of a tensor was not tried"
    if error is not None:
        detail = f"a tensor rolled by one row is {error:.3g} away, which the criterion must see"
    return at_least("rolled copy", error, case.limits["rolled-error"], detail)


def _ranks_checks(case: Case) -> list[Check]:
    """The global gradient norm is one number: every rank must report it alike."""
    checks = []
    for side in SIDES:
        run = case.evidence.run(side)
        if run is None:
            checks.append(undecided(f"{side} norm on ranks", f"the run {side} left no records"))
            continue
        first = run.files[0].steps()
        departures = [
            f"{side} step {number}: grad norm of rank {file.header.rank} is {step.grad_norm!r}, "
            f"of another rank {first[number].grad_norm!r}"
            for file in run.files[1:]
            for number, step in sorted(file.steps().items())
            if number in first and step.grad_norm_hex != first[number].grad_norm_hex
        ]
        checks.append(
            none_of(f"{side} norm on ranks", departures, len(run.files), "equal on every rank")
        )
    return checks
