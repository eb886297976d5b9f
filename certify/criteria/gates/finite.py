"""finite: every loss and gradient norm is a number above zero, and none is hidden.

A log that prints 0 for NaN, or leaves the step out, fails as the NaN itself would.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from certify.criteria.case import SIDES, Case, absent
from certify.criteria.outcome import Finding, none_of
from certify.records import Step

if TYPE_CHECKING:
    from certify.criteria.evidence import Run


def judge(case: Case) -> Finding:
    """Decide the gate over every run that trained."""
    checks = absent(case, *SIDES)
    total = 0
    for phase in sorted(case.plan.runs):
        run = case.evidence.run(phase)
        if run is None or not any(file.steps() for file in run.files):
            continue
        departures, n = _departures(phase, run)
        total += n
        checks.append(none_of(phase, departures, n, f"{n} finite steps"))
    return Finding(
        tuple(checks),
        "candidate",
        f"loss and gradient norm finite and above zero in {total} recorded steps",
    )


def _departures(phase: str, run: Run) -> tuple[list[str], int]:
    departures: list[str] = []
    n = 0
    for file in run.files:
        steps = file.steps()
        where = f"{phase} rank {file.header.rank}"
        # Every record, also one that a later record of the same step would hide.
        for step in file.of(Step):
            n += 1
            departures += [f"{where} step {step.step}: {what}" for what in _faults(step)]
        if steps:
            gaps = sorted(set(range(min(steps), max(steps))) - set(steps))
            departures += [f"{where} step {gap}: left out of the records" for gap in gaps]
    return departures, n


def _faults(step: Step) -> list[str]:
    faults = []
    for name, value, text in (
        ("loss", step.loss, step.loss_hex),
        ("grad norm", step.grad_norm, step.grad_norm_hex),
    ):
        exact = _from_hex(text)
        if not math.isfinite(value) or (exact is not None and not math.isfinite(exact)):
            faults.append(f"{name} is {value} ({text})")
        elif value <= 0:
            faults.append(f"{name} is {value}")
        elif exact != value:
            faults.append(f"{name} is {value} but its exact form is {text}")
    if step.aux_loss is not None and not math.isfinite(step.aux_loss):
        faults.append(f"auxiliary loss is {step.aux_loss}")
    return faults


def _from_hex(text: str) -> float | None:
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        return None
