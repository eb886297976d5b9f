"""forward-parity: same weights, same batch, the same logits up to the reference's own rounding.

Both sides are measured against one oracle of higher precision. A candidate may be at most a given
factor further from it than the reference is (ratio rule); the factor applies to no less than a
rounding floor, so that two sides at rounding level are not told apart by luck.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from certify.criteria.outcome import (
    OK,
    VIOLATED,
    Check,
    Finding,
    at_least,
    at_most,
    count_text,
    reported,
    undecided,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.criteria.case import Case
    from certify.criteria.load import Threshold

    Values = Mapping[str, float | int | None]

GATE = "forward-parity"


def judge(case: Case) -> Finding:
    """Decide the gate from the comparison of both sides' logits on the probe positions."""
    comparison = case.evidence.comparison(GATE)
    if comparison is None:
        missing = undecided("comparison", "no comparison of the two sides' logits was recorded")
        return Finding((missing,), "comparison", "")
    values = comparison.values
    loss = values.get("loss_rel_diff")
    size = None if loss is None else abs(loss)
    checks = [at_most("loss difference", size, case.limits["loss-relative"])]
    if not case.limits.waived("oracle"):
        rows = values.get("rows_compared")
        checks.append(counted("rows", rows, case.limits["rows-count"], "rows of logits"))
        checks += [ratio_check(case, values, kind) for kind in ("max", "rms")]
        checks.append(at_most("KL divergence", values.get("kl_mean"), case.limits["kl-mean"]))
    if not case.limits.waived("top-1"):
        checks += agreement_checks(case, values, "top1", "positions", "top-1")
    if case.plan.moe:
        checks += agreement_checks(case, values, "routing", "routing_sets", "top-k sets")
    return Finding(
        tuple(checks),
        "logits rms error",
        f"the candidate's logits are as close to the oracle as the reference's over "
        f"{count_text(values.get('positions'))} positions",
    )


def ratio_check(case: Case, values: Values, kind: str) -> Check:
    """Candidate's error against the oracle over the reference's own, kind max or rms.

    The floor scales with the oracle's logits; where their size is not recorded there is none.
    """
    name = f"logits {kind} error"
    row = case.limits["error-ratio"]
    floor = case.limits.value(f"error-floor-{kind}") * (values.get("logits_rms_oracle") or 0.0)
    candidate = values.get(f"logits_{kind}_error_candidate")
    reference = values.get(f"logits_{kind}_error_reference")
    if candidate is None or reference is None:
        return undecided(name, f"{name} against the oracle was not recorded", limit=row.value)
    allowed = row.value * max(reference, floor)
    floored = f" (floor {floor:.3g})" if reference < floor else ""
    return Check(
        name,
        OK if candidate <= allowed else VIOLATED,
        candidate,
        allowed,
        f"{name}: candidate {candidate:.3g}, reference's own {reference:.3g}{floored}, "
        f"at most {row.value:g} times",
        "logit",
    )


def counted(name: str, n: float | None, row: Threshold, what: str) -> Check:
    """At least the row's number of observations; fewer decide nothing."""
    # Not "n < row.value": a NaN is not enough either.
    if n is None or not n >= row.value:
        text = f"{count_text(n)} {what} compared, at least {row.value:,.0f} are needed"
        return undecided(name, text, value=n, limit=row.value, unit=row.unit)
    return Check(name, OK, n, row.value, f"{count_text(n)} {what} compared", row.unit)


def agreement_checks(
    case: Case, values: Values, key: str, count_key: str, label: str
) -> list[Check]:
    """Agreement of arg-max or top-k sets; disagreements at near-ties are counted apart."""
    n, disagreements = values.get(count_key), values.get(f"{key}_disagreements")
    near_ties = values.get(f"{key}_near_ties")
    enough = counted(f"{label} counted", n, case.limits[f"{key}-count"], label)
    if not n or disagreements is None or near_ties is None:
        return [enough, undecided(f"{label} agreement", f"{label} were not compared")]
    real = disagreements - near_ties
    return [
        enough,
        at_least(
            f"{label} agreement",
            1 - real / n,
            case.limits[f"{key}-agreement"],
            f"{label}: {count_text(real)} of {count_text(n)} differ beyond a near-tie",
            n=int(n) if math.isfinite(n) else None,
        ),
        reported(f"{label} near-ties", near_ties, "differ where the oracle sees a tie", "count"),
    ]
