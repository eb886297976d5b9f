"""environment: the stack that ran is a published reference, or differs from one in known ways.

Reports what the runs recorded of themselves; where the gate is required it needs the verdict of
``certify check-env``, which a campaign records once it has been asked for.
"""

from __future__ import annotations

from certify.criteria.case import Case, trained_from_start
from certify.criteria.outcome import Finding, reported, undecided


def judge(case: Case) -> Finding:
    """Show each side's environment; undecided without a verdict of check-env."""
    checks = []
    for phase, run in trained_from_start(case):
        found = run.environment
        if found is None or phase.endswith("-again"):
            continue
        packages = ", ".join(f"{name} {found.packages[name]}" for name in sorted(found.packages))
        detail = f"{phase}: Python {found.python} on {found.device_name}; {packages}"
        checks.append(reported(phase, found.device, detail))
    missing = undecided("check-env", "no verdict of check-env is in the records")
    summary = "; ".join(check.detail for check in checks) or "no environment was recorded"
    return Finding((*checks, missing), "candidate", summary)
