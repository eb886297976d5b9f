"""first-update: the step that the optimizer takes from the first gradients points the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.gates.backward_parity import complete_checks, missing_classes
from certify.criteria.outcome import Finding, at_least, undecided

if TYPE_CHECKING:
    from certify.criteria.case import Case

GATE = "first-update"


def judge(case: Case) -> Finding:
    """Decide the gate from the comparison of the parameter changes of step 1."""
    comparison = case.evidence.comparison(GATE)
    if comparison is None:
        missing = undecided("comparison", "no comparison of the first update was recorded")
        return Finding((missing,), "comparison", "")
    cosines = {name: values.get("cosine") for name, values in comparison.classes.items()}
    checks = [
        at_least(name, cosine, case.limits["cosine"], _detail(name, cosine))
        for name, cosine in sorted(cosines.items())
    ]
    checks += [*missing_classes(case, comparison), *complete_checks(comparison)]
    known = [(cosine, name) for name, cosine in cosines.items() if cosine is not None]
    lowest = min(known, default=(None, "comparison"))[1]
    return Finding(
        tuple(checks),
        lowest,
        f"the first update points the same way in {len(cosines)} classes of parameters; "
        f"{lowest} differs most",
    )


def _detail(name: str, cosine: float | None) -> str:
    if cosine is None:
        return f"{name}: a side did not change at all, or its cosine was not recorded"
    return f"{name}: cosine of the first update {cosine:.9g}"
