"""What a gate is given, and the few things that several gates do with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.criteria.outcome import Check, at_most, undecided
from certify.criteria.plan import SIDES

if TYPE_CHECKING:
    from certify.criteria.evidence import Evidence, Run
    from certify.criteria.load import Limits
    from certify.criteria.plan import Plan


@dataclass(frozen=True)
class Case:
    """A campaign as one gate sees it: its plan, its evidence, the limits of the gate."""

    plan: Plan
    evidence: Evidence
    limits: Limits


def side_of(phase: str) -> str | None:
    """The side a phase belongs to (``candidate-again`` is the candidate's), or None."""
    return next((side for side in SIDES if phase == side or phase == f"{side}-again"), None)


def trained_from_start(case: Case) -> list[tuple[str, Run]]:
    """(phase, run) of every run that trains from the initial weights and left records."""
    phases = sorted(phase for phase in case.plan.runs if side_of(phase))
    found = [(phase, case.evidence.run(phase)) for phase in phases]
    return [(phase, run) for phase, run in found if run is not None]


def resumed_phases(case: Case) -> list[str]:
    """Phases whose runs continue the candidate from a checkpoint."""
    return sorted({resume.phase for resume in case.plan.resume} & set(case.plan.runs))


def trained(case: Case) -> list[tuple[str, str, Run]]:
    """(side, phase, run) of every run that trained and left records, resumed ones too."""
    found = [(side_of(phase) or "", phase, run) for phase, run in trained_from_start(case)]
    for phase in resumed_phases(case):
        if (run := case.evidence.run(phase)) is not None and side_of(phase) is None:
            found.append(("candidate", phase, run))
    return found


def absent(case: Case, *phases: str) -> list[Check]:
    """An undecided check for each of these phases that left no records."""
    return [
        undecided(f"records of {phase}", f"the run {phase} left no records")
        for phase in phases
        if case.evidence.run(phase) is None
    ]


def relative_difference(value: float, expected: float) -> float:
    """|value - expected| over the larger magnitude; 0 when both are 0, NaN stays NaN."""
    if value == expected:
        return 0.0
    scale = max(abs(value), abs(expected))
    try:
        return abs(value - expected) / scale if scale else math.nan
    except OverflowError:
        # A whole number beyond the range of floats is near nothing but itself.
        return math.inf


def optional_at_most(
    case: Case, name: str, value: float | None, row_name: str, detail: str = ""
) -> list[Check]:
    """The check, or nothing where the criteria have no such row for this precision."""
    row = case.limits.find(row_name)
    return [] if row is None else [at_most(name, value, row, detail)]


__all__ = [
    "SIDES",
    "Case",
    "absent",
    "optional_at_most",
    "relative_difference",
    "resumed_phases",
    "side_of",
    "trained",
    "trained_from_start",
]
