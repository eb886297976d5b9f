"""Compares a run of ours, step by step, with what Hugging Face's Trainer recorded of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from certify.criteria.case import relative_difference
from certify.criteria.load import Threshold
from certify.criteria.outcome import PASS, Check, Finding, at_most, none_of, reported, undecided
from certify.reference.recorded import shipped_folder

if TYPE_CHECKING:
    from certify.records import RecordFile, Step
    from certify.reference.foreign import LoggedStep, Trajectory


def limits() -> dict[str, Threshold]:
    """The numbers that decide, by name."""
    path = shipped_folder().parent / "llamafactory" / "limits.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {row["name"]: Threshold(gate="reference", **row) for row in rows}


def compare(files: tuple[RecordFile, ...], theirs: Trajectory) -> Finding:
    """Every step of the trajectory against the same step on every rank of ours.

    That both trained the same weights and samples cannot be read from a trainer's state; other
    inputs show as another first loss. Fewer steps than the limit are no evidence either way.
    """
    rows = limits()
    checks: list[Check] = []
    for file in files:
        ours = file.steps()
        rank = file.header.rank
        missing = [s.step for s in theirs.steps if s.step not in ours]
        further = sorted(set(ours) - {s.step for s in theirs.steps})
        wrong = [f"rank {rank}: step {n} was not trained" for n in missing]
        wrong += [f"rank {rank}: step {n} is not in the reference" for n in further]
        checks.append(none_of(f"steps of rank {rank}", wrong, len(ours), "the same steps"))
        common = [(ours[s.step], s) for s in theirs.steps if s.step in ours]
        checks += _compared(rank, common, rows)
    least = rows["steps-count"]
    if len(theirs.steps) < least.value:
        text = f"{len(theirs.steps)} steps; at least {least.value:g} are evidence"
        checks.append(undecided("number of steps", text, limit=least.value))
    return Finding(tuple(checks), "loss of rank 0", f"{len(theirs.steps)} steps agree")


def reason(finding: Finding) -> str:
    """What stands for the comparison: the first check at fault, else that all agree."""
    shown = None if finding.verdict == PASS else finding.shown()
    return finding.summary if shown is None else shown.detail


def _compared(
    rank: int, common: list[tuple[Step, LoggedStep]], rows: dict[str, Threshold]
) -> list[Check]:
    checks = []
    fields = (("loss", "loss"), ("grad-norm", "grad_norm"), ("lr", "lr"))
    for name, field in fields:
        pairs = [
            (relative_difference(getattr(mine, field), logged), mine.step)
            for mine, other in common
            if (logged := getattr(other, field)) is not None
        ]
        label = f"{name} of rank {rank}"
        if len(pairs) < len(common) or not pairs:
            checks.append(undecided(label, f"{label}: {len(pairs)} of {len(common)} steps have it"))
            continue
        # NaN is the worst that can be, and compares as less than nothing.
        worst, where = max(pairs, key=lambda pair: (pair[0] != pair[0], pair[0]))
        text = f"{label} differs by at most {worst:.3g}, in step {where} of {len(pairs)}"
        checks.append(at_most(label, worst, rows[name], text, n=len(pairs)))
        beyond = [step for value, step in pairs if not value <= rows[name].value]
        if beyond:
            checks.append(
                reported(f"first {label}", beyond[0], f"first beyond in step {beyond[0]}")
            )
    return checks
