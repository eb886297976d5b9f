"""throughput: how fast the candidate trains, over whole steps and real tokens.

Reports the median step time after warm-up. Where the gate is required it needs fresh processes in
ABBA order with a baseline, which no record of a plain campaign carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.outcome import Finding, reported, undecided
from certify.criteria.statistics.intervals import median

if TYPE_CHECKING:
    from certify.criteria.case import Case


def judge(case: Case) -> Finding:
    """Report step time and tokens per second; undecided without a baseline."""
    baseline = undecided("baseline", "no baseline runs in ABBA order are in the records")
    run = case.evidence.run("candidate")
    warm_up = case.limits.whole("warm-up-steps")
    steps = [] if run is None else [s for n, s in sorted(run.steps.items()) if n > warm_up]
    if not steps:
        nothing = f"no step after the {warm_up} of warm-up was recorded"
        return Finding((baseline,), "step time", nothing)
    time_s = median([step.step_time_s for step in steps])
    rate = median([step.tokens / step.step_time_s for step in steps if step.step_time_s > 0] or [0])
    text = f"median step {time_s:.4g} s, {rate:.4g} tokens/s over {len(steps)} steps"
    checks = (
        reported("step time", time_s, text, "s", n=len(steps)),
        reported("tokens per second", rate, text, "tokens/s", n=len(steps)),
        baseline,
    )
    return Finding(checks, "step time", text)
