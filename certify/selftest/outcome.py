"""What the judge says of a trial, and what the usual rules of the field would have said."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from certify.criteria.evidence import read_evidence
from certify.criteria.judge import judge, judge_gate
from certify.criteria.load import load_criteria
from certify.criteria.outcome import FAIL, PASS
from certify.criteria.plan import parse_plan
from certify.records import Collective, Step
from certify.selftest.trials import plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.criteria.evidence import Evidence
    from certify.records import RecordFile
    from certify.selftest.trials import Trial

# Rules in use elsewhere: relative difference of each loss over so many steps, and equality.
USUAL = {"2% on 15 steps": (0.02, 15), "5% approximate": (0.05, None)}
BITWISE = "bitwise at step 1"
# Gates that a short run with a fault is judged by.
JUDGED = (
    "plan-followed",
    "finite",
    "forward-parity",
    "backward-parity",
    "first-update",
    "loss-curve",
    "resume",
    "reshard",
)


@dataclass(frozen=True)
class Outcome:
    """caught: gates that FAILed (or the self-test of collectives that stopped the run); expected:
    those of which one should; usual: rule -> whether it would have noticed; verdict: of an A/A."""

    fault: str | None
    case: str
    seed: int
    caught: tuple[str, ...]
    expected: tuple[str, ...]
    usual: dict[str, bool]
    verdict: str | None
    reasons: dict[str, str]

    @property
    def is_right(self) -> bool:
        """An A/A passes; a fault is caught by a gate that should see it."""
        if self.fault is None:
            return self.verdict == PASS
        return bool(set(self.caught) & set(self.expected))


def outcome(trial: Trial) -> Outcome:
    """Judge the records of one trial."""
    plan = parse_plan(json.loads(json.dumps(plan_of(trial))), "plan.json")
    evidence = read_evidence(trial.ground.layout.root, plan)
    if trial.last_step is not None:
        evidence = first_steps(evidence, trial.last_step)
    case, seed = trial.ground.case.name, trial.ground.seed
    if trial.fault is None:
        verdict = judge(plan, evidence, load_criteria())
        bad = {g.gate: g.reason for g in verdict.gates if g.required and g.verdict != PASS}
        return Outcome(None, case, seed, (), (), _usual(evidence, trial), verdict.verdict, bad)
    results = [judge_gate(gate, plan, evidence, load_criteria()) for gate in JUDGED]
    reasons = {r.gate: r.reason for r in results if r.verdict == FAIL}
    if _wrong_collective(evidence):
        reasons["collectives"] = "the self-test of the collectives stopped the run"
    return Outcome(
        trial.fault, case, seed, tuple(reasons), trial.gates, _usual(evidence, trial), None, reasons
    )


def first_steps(evidence: Evidence, last: int) -> Evidence:
    """The records without steps after `last`: a short run is judged beside the start of others."""

    def cut(file: RecordFile) -> RecordFile:
        kept = (r for r in file.records if not (isinstance(r, Step) and r.step > last))
        return replace(file, records=tuple(kept))

    runs = {
        phase: replace(run, files=tuple(cut(file) for file in run.files))
        for phase, run in evidence.runs.items()
    }
    return replace(evidence, runs=runs)


def _wrong_collective(evidence: Evidence) -> bool:
    runs = [*evidence.runs.values(), *evidence.hops.values()]
    return any(not c.ok for run in runs for file in run.files for c in file.of(Collective))


def _usual(evidence: Evidence, trial: Trial) -> dict[str, bool]:
    """Each usual rule on the losses that this trial has: a continued run against the run that was
    not interrupted, any other against the reference."""
    if trial.hops:
        found, base = evidence.hops.get(trial.hops[0]["run"]), evidence.run("candidate")
    elif trial.fault is not None and "resume" in trial.gates:
        found, base = evidence.run("resume"), evidence.run("candidate")
    else:
        found, base = evidence.run("candidate"), evidence.run("reference")
    if found is None or base is None:
        return {}
    return usual_rules(found.steps, base.steps)


def usual_rules(found: Mapping[int, Step], base: Mapping[int, Step]) -> dict[str, bool]:
    """rule -> whether it notices a difference between two records of steps."""
    common = sorted(set(found) & set(base))
    noticed = {}
    for name, (limit, most) in USUAL.items():
        noticed[name] = any(
            not abs(found[s].loss - base[s].loss) <= limit * abs(base[s].loss)
            for s in common[:most]
        )
    first = common[:1]
    noticed[BITWISE] = any(found[s].loss_hex != base[s].loss_hex for s in first)
    return noticed
