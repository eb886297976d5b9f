"""The judge: a pure function of plan, evidence and criteria; and the reading that feeds it.

`judge` does no I/O and reads no clock: the same records always give the same verdict, byte for
byte. `judge_campaign` reads a campaign folder and calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.case import Case
from certify.criteria.evidence import notes, read_evidence
from certify.criteria.gates import GATES
from certify.criteria.load import limits_of, load_criteria
from certify.criteria.outcome import (
    FAIL,
    INCONCLUSIVE,
    NOT_REQUIRED,
    PASS,
    REPORTED,
    UNDECIDED,
    VIOLATED,
    Finding,
    GateResult,
    Verdict,
    as_text,
    undecided,
)
from certify.criteria.plan import read_plan
from certify.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from certify.criteria.evidence import Evidence
    from certify.criteria.load import Criteria, Requirement
    from certify.criteria.plan import Plan

_MOST_REASONS = 3


def judge(plan: Plan, evidence: Evidence, criteria: Criteria) -> Verdict:
    """The verdict on a campaign: every gate of the criteria, then the overall rule.

    FAIL if any computed gate FAILs, else INCONCLUSIVE if a required gate is, else PASS. Where the
    plan names the gates that it is for, only these are judged, and nothing is claimed.
    """
    judged = [gate.id for gate in criteria.gates if gate.id in plan.only or not plan.only]
    gates = tuple(judge_gate(gate, plan, evidence, criteria) for gate in judged)
    verdict = overall(gates)
    claim = criteria.claim(plan.scale).says.replace("{device}", plan.device)
    return Verdict(
        verdict=verdict,
        gates=gates,
        scale=plan.scale,
        device=plan.device,
        criteria={"version": criteria.version, "sha256": criteria.sha256},
        claim=claim if verdict == PASS and plan.inject is None and not plan.only else None,
        campaign_id=plan.campaign_id,
        recipe_id=plan.recipe_id,
        attempts={p: run.attempts for p, run in evidence.runs.items() if run.attempts > 1},
        notes=(*_alone(plan), *notes(evidence)),
        inject=None if plan.inject is None else plan.inject.name,
        inject_side=None if plan.inject is None else plan.inject.side,
    )


def _alone(plan: Plan) -> tuple[str, ...]:
    named = ", ".join(plan.only)
    return (f"only {named} was run and judged: the recipe itself was not",) if named else ()


def overall(gates: tuple[GateResult, ...]) -> str:
    """The overall rule (criteria, principle 6)."""
    if any(gate.verdict == FAIL for gate in gates):
        return FAIL
    required = [gate.verdict for gate in gates if gate.required]
    return PASS if required and all(verdict == PASS for verdict in required) else INCONCLUSIVE


def judge_gate(gate: str, plan: Plan, evidence: Evidence, criteria: Criteria) -> GateResult:
    """One row of the table. gate: an id of the criteria."""
    requirement = criteria.requirement(gate, plan.scale, plan.stage)
    asked = requirement.status == "on-request" and gate in plan.requested
    required = requirement.status == "required" or asked
    if gate in GATES:
        finding = GATES[gate](Case(plan, evidence, limits_of(criteria, gate, plan)))
    else:
        finding = Finding((undecided("records", f"no records of {gate} are here"),), "records", "")
    return _result(gate, finding, requirement, required)


def _result(gate: str, finding: Finding, requirement: Requirement, required: bool) -> GateResult:
    verdict = finding.verdict
    if not required and verdict != FAIL:
        verdict = NOT_REQUIRED
    shown = finding.shown() if verdict != NOT_REQUIRED else finding.headlined()
    return GateResult(
        gate=gate,
        verdict=verdict,
        required=required,
        reason=_reason(finding, verdict, requirement),
        statistic=None if shown is None else shown.value,
        low=None if shown is None else shown.low,
        high=None if shown is None else shown.high,
        margin=None if shown is None else shown.limit,
        n=None if shown is None else shown.n,
        unit="" if shown is None else shown.unit,
        checks=finding.checks,
    )


def _reason(finding: Finding, verdict: str, requirement: Requirement) -> str:
    if verdict == PASS:
        return finding.summary
    if verdict == NOT_REQUIRED:
        measured = any(c.outcome == REPORTED for c in finding.checks) or finding.verdict == PASS
        return f"{requirement.reason}. {finding.summary}" if measured else requirement.reason
    wanted = VIOLATED if verdict == FAIL else UNDECIDED
    details = [c.detail or c.name for c in finding.checks if c.outcome == wanted]
    more = len(details) - _MOST_REASONS
    shown = "; ".join(details[:_MOST_REASONS])
    return f"{shown}; and {more} more" if more > 0 else shown


def judge_campaign(folder: Path) -> Verdict:
    """Read a campaign folder and judge it by the criteria of this version.

    Raises UsageError naming the file for a folder without plan, or a malformed plan or record.
    """
    try:
        plan = read_plan(folder / "plan.json")
        return judge(plan, read_evidence(folder, plan), load_criteria())
    except RecursionError:
        raise UsageError("the plan or a record is nested too deeply", where=str(folder)) from None


def verdict_json(verdict: Verdict) -> str:
    """The text of ``verdict.json``."""
    return as_text(verdict)


__all__ = [
    "FAIL",
    "INCONCLUSIVE",
    "PASS",
    "judge",
    "judge_campaign",
    "judge_gate",
    "overall",
    "verdict_json",
]
