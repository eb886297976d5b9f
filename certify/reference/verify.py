"""Compares a trajectory that was trained again with the recorded one: inputs first, then steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.criteria.case import Case, relative_difference
from certify.criteria.evidence import Evidence, Run
from certify.criteria.gates.loss_curve import loss_ratios, pair_checks
from certify.criteria.load import limits_of, load_criteria
from certify.criteria.outcome import Check, Finding, at_most, none_of, reported, undecided
from certify.criteria.plan import parse_plan
from certify.records import Environment, read_file
from certify.reference import recorded

if TYPE_CHECKING:
    from certify.criteria.plan import Plan
    from certify.records import RecordFile
    from certify.reference.recorded import Recorded

_INPUTS = ("lr", "tokens", "supervised_tokens", "tokens_sha256", "mask_sha256", "batch")
_HEX = ("loss_hex", "grad_norm_hex")


@dataclass(frozen=True)
class Compared:
    """finding: the checks and what they amount to; equal_steps: how many steps agree bit for
    bit, of `steps`; same_environment: whether versions and processor are those of the record."""

    finding: Finding
    steps: int
    equal_steps: int
    same_environment: bool


def compare(known: Recorded, plan: dict[str, Any], file: RecordFile) -> Compared:
    """Compare records that were made now with recorded ones.

    plan: what was fixed before the run now. A difference of inputs is a violation: then nothing
    else says anything of the implementation.
    """
    where = str(known.folder / recorded.PLAN)
    before, now = parse_plan(known.read(recorded.PLAN), where), parse_plan(plan, "the new plan")
    old = read_file(known.folder / recorded.RECORDS)
    checks = [_inputs(before, now, old, file)]
    theirs, ours = old.steps(), file.steps()
    common = sorted(set(theirs) & set(ours))
    equal = sum(all(getattr(theirs[n], k) == getattr(ours[n], k) for k in _HEX) for n in common)
    same = _stack(old) == _stack(file)
    where = "the recorded versions and processor" if same else "other versions or another processor"
    text = f"{equal} of {len(theirs)} steps equal bit for bit, on {where}"
    checks += [*_tolerance(before, old, file), reported("bitwise", equal, text, n=len(theirs))]
    return Compared(Finding(tuple(checks), "bitwise", text), len(theirs), equal, same)


def _inputs(before: Plan, now: Plan, old: RecordFile, file: RecordFile) -> Check:
    wrong = []
    if now.expected.weights_digest != before.expected.weights_digest:
        wrong.append("the initial weights are others")
    for key in ("recipe_id", "scale", "stage", "device"):
        if getattr(before, key) != getattr(now, key):
            wrong.append(f"{key} is {getattr(now, key)}, recorded {getattr(before, key)}")
    theirs, ours = old.steps(), file.steps()
    for n, step in sorted(theirs.items()):
        if n not in ours:
            wrong.append(f"step {n} was not trained")
            continue
        wrong += [
            f"step {n}: {key} differs"
            for key in _INPUTS
            if getattr(step, key) != getattr(ours[n], key)
        ]
    return none_of("inputs", wrong, len(theirs), "the recorded weights, batches and rates")


def _tolerance(plan: Plan, old: RecordFile, file: RecordFile) -> list[Check]:
    """The rules of the loss curve and of the first norms, as between two implementations."""
    criteria = load_criteria()
    reference, again = Run("recorded", (old,)), Run("now", (file,))
    ratios, fault = loss_ratios(again, reference)
    if fault is not None:
        return [fault]
    case = Case(plan, Evidence({}), limits_of(criteria, "loss-curve", plan))
    checks = pair_checks(case, ratios, None)
    limits = limits_of(criteria, "backward-parity", plan)
    first = range(1, limits.whole("norm-first-steps-count") + 1)
    theirs, ours = reference.steps, again.steps
    norms = [
        relative_difference(ours[n].grad_norm, theirs[n].grad_norm)
        for n in first
        if n in theirs and n in ours
    ]
    if not norms:
        return [*checks, undecided("gradient norm", "no first step was recorded")]
    row = limits.find("norm-first-steps")
    worst = max(norms)
    text = f"gradient norms of the first {len(norms)} steps differ by at most {worst:.3g}"
    checks.append(
        reported("gradient norm", worst, text)
        if row is None
        else at_most("gradient norm", worst, row, text, n=len(norms))
    )
    flips = [
        n
        for n in sorted(theirs)
        if n in ours and theirs[n].routing_sha256 != ours[n].routing_sha256
    ]
    text = f"first step with other top-k sets: {flips[0]}" if flips else "the same top-k sets"
    return [*checks, reported("routing", flips[0] if flips else None, text)]


def _stack(file: RecordFile) -> list[Any]:
    return [(e.python, e.packages, e.device_name, e.effective) for e in file.of(Environment)]
