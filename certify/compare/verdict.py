"""What two loss files can carry: checks by the rule of the loss curve, never a PASS.

Files of losses do not show that both sides started from the same weights and saw the same batches:
a small difference proves no equality and a large one no fault. Only what a side shows alone, a loss
that is not a number or is zero, is a FAIL.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from certify.criteria.gates.loss_curve import equivalence
from certify.criteria.load import Limits, load_criteria
from certify.criteria.outcome import (
    Check,
    Finding,
    at_least,
    none_of,
    reported,
    undecided,
)
from certify.criteria.statistics.intervals import mean_interval, trend_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from certify.compare.formats import Curve

SCHEMA = "certify.compare/1"
INPUTS = "initial weights, batches and rates of a loss file cannot be shown to be equal"


def compare(candidate: Curve, reference: Curve, stage: str) -> dict[str, Any]:
    """The document: verdict, format of both files, checks. stage: pretrain | sft."""
    limits = Limits(load_criteria(), "loss-curve", "full", stage, "bf16", moe=False)
    checks = [_finite("candidate", candidate), _finite("reference", reference)]
    common = sorted(set(candidate.loss) & set(reference.loss))
    checks.append(_length(candidate, reference, len(common)))
    ratios = [
        (candidate.loss[s] - reference.loss[s]) / reference.loss[s]
        for s in common
        if _sound(candidate.loss[s]) and _sound(reference.loss[s])
    ]
    checks += _curve_checks(ratios, limits)
    checks.append(_norms(candidate, reference))
    checks.append(undecided("inputs", INPUTS + ": certify run trains both sides and records them"))
    shown = [vars(check) for check in checks]
    for check in shown:
        check.update({k: repr(v) for k, v in check.items() if _wild(v)})
    return {
        "schema": SCHEMA,
        "verdict": Finding(tuple(checks), "drift", "").verdict,
        "criteria": {"version": limits.criteria.version, "sha256": limits.criteria.sha256},
        "candidate": {"file": candidate.where, "format": candidate.form, "n": len(candidate.loss)},
        "reference": {"file": reference.where, "format": reference.form, "n": len(reference.loss)},
        "checks": shown,
    }


def _wild(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _sound(loss: float) -> bool:
    return math.isfinite(loss) and loss > 0


def _finite(side: str, curve: Curve) -> Check:
    wrong = [f"{side} step {s}: loss {v}" for s, v in sorted(curve.loss.items()) if not _sound(v)]
    wrong += [
        f"{side} step {s}: gradient norm {v}"
        for s, v in sorted(curve.grad_norm.items())
        if not _sound(v)
    ]
    if side == "reference" and wrong:
        return undecided("finite (reference)", f"{wrong[0]}: it can be no reference")
    return none_of(f"finite ({side})", wrong, len(curve.loss), "every loss is a number above zero")


def _length(candidate: Curve, reference: Curve, common: int) -> Check:
    sizes = len(candidate.loss), len(reference.loss)
    if set(candidate.loss) == set(reference.loss):
        return reported("steps", common, f"the same {common} steps", n=common)
    text = f"{sizes[0]} and {sizes[1]} steps, {common} in common"
    return undecided("steps", f"{text}: only these are compared", value=common)


def _curve_checks(ratios: Sequence[float], limits: Limits) -> list[Check]:
    """Drift, trend and band; not a violation here, since the inputs may differ."""
    if not ratios:
        return [undecided("drift", "no step has a loss on both sides")]
    alpha, blocks, n = limits.value("alpha"), limits.blocks(), len(ratios)
    few = f"{n} steps are too few for an interval: {blocks.steps_needed} are needed"
    half = ratios[n // 2 :]
    more = f"the last half, {len(half)} steps, is too short: {2 * blocks.steps_needed} steps needed"
    width = limits.value("band-floor")
    inside = sum(abs(r) <= width for r in ratios)
    band = f"{inside} of {n} steps within {width:g}; the largest difference is "
    band += f"{max(map(abs, ratios)):.3g}"
    checks = [
        equivalence("drift", mean_interval(ratios, alpha, blocks), limits["drift"], few),
        equivalence("trend", trend_interval(half, alpha, blocks), limits["trend"], more),
        at_least("band", inside / n, limits["band-share"], band, n=n),
    ]
    return [_without_blame(check) for check in checks]


def _without_blame(check: Check) -> Check:
    if check.outcome != "violated":
        return check
    kept = {k: v for k, v in vars(check).items() if k not in ("name", "outcome", "detail")}
    return undecided(check.name, f"{check.detail}: a fault, or other inputs", **kept)


def _norms(candidate: Curve, reference: Curve) -> Check:
    absent = [c.where for c in (candidate, reference) if not c.grad_norm]
    if absent:
        return undecided("gradient norm", f"{absent[0]} has none")
    common = sorted(set(candidate.grad_norm) & set(reference.grad_norm))
    worst = max((_relative(candidate.grad_norm, reference.grad_norm, s) for s in common), default=0)
    return reported(
        "gradient norm", worst, f"largest relative difference {worst:.3g}", n=len(common)
    )


def _relative(ours: Mapping[int, float], theirs: Mapping[int, float], step: int) -> float:
    return abs(ours[step] - theirs[step]) / theirs[step] if theirs[step] else math.inf


def text(body: Mapping[str, Any]) -> str:
    """The document for people."""
    lines = [
        f"{side:<10} {body[side]['file']} ({body[side]['format']}, {body[side]['n']} steps)"
        for side in ("candidate", "reference")
    ]
    lines.append("")
    lines += [f"{c['name']:<20} {c['outcome']:<10} {c['detail']}" for c in body["checks"]]
    return "\n".join([*lines, "", f"verdict: {body['verdict']}"])
