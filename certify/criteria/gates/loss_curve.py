"""loss-curve: on identical batches the two loss curves are the same up to a stated margin.

r_t = (candidate - reference) / reference at step t. Drift and trend are shown to be inside their
margins by two one-sided tests; the band bounds single steps; over several seeds the same is shown
for the mean of the seeds. For an MoE model the first step with another top-k set must be a
near-tie, after which the curve decides.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from certify.criteria.case import SIDES, Case, absent, optional_at_most
from certify.criteria.outcome import (
    OK,
    UNDECIDED,
    VIOLATED,
    Check,
    Finding,
    at_least,
    count_text,
    reported,
    undecided,
)
from certify.criteria.statistics.intervals import (
    Interval,
    equivalent,
    independent_interval,
    mean,
    mean_interval,
    observations_needed,
    root_mean_square,
    trend_interval,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certify.criteria.evidence import Run
    from certify.criteria.load import Threshold


def judge(case: Case) -> Finding:
    """Decide the gate from the losses of both sides, further seeds included."""
    candidate, reference = (case.evidence.run(side) for side in SIDES)
    if candidate is None or reference is None:
        return Finding(tuple(absent(case, *SIDES)), "drift", "")
    ratios, fault = loss_ratios(candidate, reference)
    if fault is not None:
        return Finding((fault,), fault.name, "")
    again = case.evidence.run("reference-again")
    noise = None if again is None else loss_ratios(again, reference)[0]
    checks = pair_checks(case, ratios, noise)
    checks += run_level_checks(case, ratios)
    if case.plan.moe:
        checks.append(routing_check(case, candidate, reference))
    equal = " (bitwise equal)" if not any(ratios) else ""
    return Finding(
        tuple(checks),
        "drift",
        f"no drift, no trend and no step outside the band in {len(ratios)} steps{equal}",
    )


def loss_ratios(candidate: Run, reference: Run) -> tuple[list[float], Check | None]:
    """r_t over the steps that both recorded, in order, or the check that says why there is none."""
    ours, theirs = candidate.steps, reference.steps
    ratios = []
    for step in sorted(set(ours) & set(theirs)):
        base, loss = theirs[step].loss, ours[step].loss
        if not (math.isfinite(base) and base > 0):
            return [], undecided("ratio", f"step {step}: the reference's loss is {base}")
        if not math.isfinite(loss):
            detail = f"step {step}: the candidate's loss is {loss}"
            return [], Check("ratio", VIOLATED, loss, None, detail)
        ratios.append((loss - base) / base)
    if not ratios:
        return [], undecided("ratio", "the two sides have no step in common")
    return ratios, None


def pair_checks(case: Case, ratios: Sequence[float], noise: Sequence[float] | None) -> list[Check]:
    """Drift, trend, band and first steps of one pair. noise: r_t of reference against itself."""
    limits, blocks = case.limits, case.limits.blocks()
    alpha, half = limits.value("alpha"), ratios[len(ratios) // 2 :]
    checks = [
        equivalence(
            "drift",
            mean_interval(ratios, alpha, blocks),
            limits["drift"],
            f"{len(ratios)} steps are too few for an interval: {blocks.steps_needed} are needed",
        ),
        equivalence(
            "trend",
            trend_interval(half, alpha, blocks),
            limits["trend"],
            f"the last half, {len(half)} steps, is too short for an interval: "
            f"{2 * blocks.steps_needed} steps are needed",
        ),
        *_band_checks(case, ratios, noise),
    ]
    first = ratios[: limits.whole("first-steps-count")]
    worst = max(map(abs, first))
    detail = f"largest difference in the first {len(first)} steps is {worst:.3g}"
    return checks + optional_at_most(case, "first steps", worst, "first-steps", detail)


def equivalence(name: str, interval: Interval | None, row: Threshold, too_few: str) -> Check:
    """Two one-sided tests of an interval against +- the row's number."""
    if interval is None:
        return undecided(name, too_few, limit=row.value, unit=row.unit)
    outcome = {True: OK, False: VIOLATED, None: UNDECIDED}[equivalent(interval, row.value)]
    detail = f"{name} {interval.estimate:+.3g} [{interval.low:+.3g}, {interval.high:+.3g}]"
    if outcome == UNDECIDED:
        needed = observations_needed(interval, row.value)
        detail += f" reaches over the margin of {row.value:g}"
        if needed is not None:
            detail += (
                f"; about {max(needed, interval.n + 1)} would be needed, {interval.n} are here"
            )
    return Check(
        name,
        outcome,
        interval.estimate,
        row.value,
        detail,
        row.unit,
        interval.low,
        interval.high,
        interval.n,
    )


def _band_checks(case: Case, ratios: Sequence[float], noise: Sequence[float] | None) -> list[Check]:
    """Share of steps inside the band: wide enough for the reference's own noise, but capped."""
    limits = case.limits
    width, source = limits.value("band-floor"), "no repetition of the reference was recorded"
    shown = reported("A/A sd", None, source)
    if noise:
        spread = root_mean_square(noise)
        width = max(width, limits.value("band-noise-factor") * spread)
        source = f"the reference repeats itself within {spread:.3g}"
        shown = reported("A/A sd", spread, source, "relative", n=len(noise))
    width = min(width, limits.value("band-cap"))
    inside = sum(abs(r) <= width for r in ratios)
    detail = f"{inside} of {len(ratios)} steps within {width:.3g} ({source})"
    share = inside / len(ratios)
    return [at_least("band", share, limits["band-share"], detail, n=len(ratios)), shown]


def run_level(drifts: Sequence[float], alpha: float, row: Threshold, needed: int) -> list[Check]:
    """The test over seeds: the mean drift of paired runs lies inside the margin.

    drifts: mean r_t, one a seed; needed: seeds that this scale requires. Nothing when one seed is
    all that is required and there.
    """
    n = len(drifts)
    if n < 2:
        if needed <= n:
            return []
        return [undecided("seeds", f"{n} seed was run, this scale needs {needed}", limit=needed)]
    interval = independent_interval(drifts, alpha)
    checks = [equivalence("run level", interval, row, "")]
    if n < needed:
        checks.append(undecided("seeds", f"{n} seeds of {needed} were run", limit=needed))
    return checks


def run_level_checks(case: Case, ratios: Sequence[float]) -> list[Check]:
    """`run_level` for the pair and the further seeds of the campaign."""
    drifts, checks = [mean(ratios)], []
    for candidate, reference in case.evidence.pairs:
        further, fault = loss_ratios(candidate, reference)
        if fault is not None:
            checks.append(fault)
        else:
            drifts.append(mean(further))
    row, limits = case.limits["run-level"], case.limits
    return checks + run_level(drifts, limits.value("alpha"), row, limits.whole("seeds"))


def routing_check(case: Case, candidate: Run, reference: Run) -> Check:
    """The first differing top-k set, if any, must be a near-tie of the router."""
    row, name = case.limits["near-tie"], "first routing flip"
    digests = [
        (step, record.routing_sha256, reference.steps[step].routing_sha256)
        for step, record in sorted(candidate.steps.items())
        if step in reference.steps
    ]
    comparison = case.evidence.comparison("routing")
    if comparison is None:
        if digests and all(ours and ours == theirs for _, ours, theirs in digests):
            return reported(name, None, f"none: the same top-k sets in all {len(digests)} steps")
        return undecided(name, "the top-k sets of the two sides were not compared", limit=row.value)
    values = comparison.values
    first = values.get("first_difference_step")
    if first is None:
        return reported(name, None, f"none in {values.get('steps_compared')} steps", "step")
    gaps = [values.get(f"first_layer_max_gap_{side}") for side in SIDES]
    known = [gap for gap in gaps if gap is not None]
    if len(known) < len(gaps):
        return undecided(name, f"step {first} routes otherwise, its gap was not recorded")
    # NaN must not pass for a small gap: max() would drop it by its position.
    tie, gap = all(gap <= row.value for gap in known), max(known)
    detail = (
        f"step {count_text(first)} is the first with another top-k set, where the router's gap is "
        f"{gap:.3g}, a near-tie up to {row.value:g} ({values.get('differing')} of "
        f"{values.get('compared')} sets differ in all)"
    )
    return Check(name, OK if tie else VIOLATED, gap, row.value, detail, row.unit)
