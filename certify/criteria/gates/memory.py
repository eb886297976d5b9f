"""memory: how much the candidate allocates at its peak, and whether that grows.

Where the gate is required it needs a baseline and the size of the device, which no record of a
plain campaign carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.outcome import Finding, reported, undecided

if TYPE_CHECKING:
    from certify.criteria.case import Case


def judge(case: Case) -> Finding:
    """Report the peak over ranks and its growth after warm-up; undecided without a baseline."""
    baseline = undecided("baseline", "no baseline and no device size are in the records")
    run = case.evidence.run("candidate")
    warm_up = case.limits.whole("warm-up-steps")
    series = [] if run is None else [file.steps() for file in run.files]
    peaks = [step.peak_bytes for steps in series for step in steps.values()]
    if not peaks:
        return Finding((baseline,), "peak", "no peak was recorded")
    growth = 0
    for steps in series:
        later = [step.peak_bytes for number, step in sorted(steps.items()) if number > warm_up]
        growth = max(growth, later[-1] - later[0]) if later else growth
    text = f"peak {max(peaks):,} bytes on one rank, grown by {growth:,} bytes after step {warm_up}"
    checks = (
        reported("peak", max(peaks), text, "bytes", n=len(peaks)),
        reported("growth", growth, text, "bytes"),
        baseline,
    )
    return Finding(checks, "peak", text)
