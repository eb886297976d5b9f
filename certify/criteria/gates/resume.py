"""resume: a run continued from a checkpoint is the run that was never interrupted.

If two uninterrupted runs agree bitwise, so must the resumed one (bitwise tier); else its losses
must stay within tolerances (tolerance tier). State and next batches must be equal in both. The
negative controls resume with something left out and must be noticed by the same rule: a criterion
that cannot see a dropped optimizer state proves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from certify.criteria.case import Case, absent
from certify.criteria.gates.conditions import same_stack_check
from certify.criteria.outcome import (
    OK,
    VIOLATED,
    Check,
    Finding,
    none_of,
    reported,
    undecided,
)
from certify.criteria.statistics.intervals import mean, root_mean_square
from certify.records import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.criteria.evidence import Run
    from certify.criteria.plan import PlannedResume
    from certify.records import RecordFile, Step

    Steps = Mapping[int, Step]

_HEX = ("loss_hex", "grad_norm_hex")
_BATCH = ("tokens_sha256", "mask_sha256", "batch", "tokens", "supervised_tokens")


@dataclass(frozen=True)
class _Rule:
    """How a continued run is compared. noise: r_t of the two uninterrupted runs over the same
    steps, None in the bitwise tier."""

    case: Case
    base: Steps
    save_step: int
    steps: int
    noise: float | None

    @property
    def tier(self) -> str:
        return "bitwise" if self.noise is None else "tolerance"

    def departures(self, found: Steps) -> list[str]:
        """What in a continued run breaks the rule, over the steps it has."""
        common = [s for s in sorted(found) if s in self.base and s > self.save_step]
        if self.noise is None:
            return [
                f"step {s}: {key.removesuffix('_hex')} is {getattr(found[s], key)}, uninterrupted "
                f"{getattr(self.base[s], key)}"
                for s in common
                for key in _HEX
                if getattr(found[s], key) != getattr(self.base[s], key)
            ]
        return self._tolerance(found, common, self.noise)

    def _tolerance(self, found: Steps, common: list[int], noise: float) -> list[str]:
        limits = self.case.limits
        first, each = limits.value("first-step"), limits.value("each-step")
        ratios = {s: _ratio(found[s], self.base[s]) for s in common}
        wrong = []
        for s, ratio in ratios.items():
            limit = first if s == self.save_step + 1 else each
            if not abs(ratio) <= limit:
                wrong.append(f"step {s}: loss is off by {ratio:+.3g}, limit {limit:g}")
        allowed = max(limits.value("mean"), limits.value("mean-noise-factor") * noise)
        if ratios and not abs(mean(list(ratios.values()))) <= allowed:
            average = mean(list(ratios.values()))
            wrong.append(f"mean difference {average:+.3g}, limit {allowed:.3g}")
        return wrong


def _ratio(step: Step, base: Step) -> float:
    """Relative loss difference; infinite beside a loss of zero, which `finite` reports."""
    difference = step.loss - base.loss
    return difference / base.loss if base.loss else difference and math.inf


def judge(case: Case) -> Finding:
    """Decide the gate for every planned resume."""
    planned = case.plan.resume
    if not planned:
        return Finding((undecided("plan", "the plan has no resume"),), "plan", "")
    checks = absent(case, "candidate", "candidate-again", *(p.phase for p in planned))
    if checks:
        return Finding(tuple(checks), checks[0].name, "")
    tiers = []
    for plan in planned:
        label = plan.save_point if len(planned) > 1 else ""
        found, tier = _resume_checks(case, plan)
        tiers.append(tier)
        checks += [_labelled(check, label) for check in found]
    points = {p.save_point for p in planned}
    needed = case.limits.whole("save-points")
    if len(points) < needed:
        text = f"{len(points)} save point ({', '.join(sorted(points))}), this scale needs {needed}"
        checks.append(undecided("save points", text, limit=needed))
    steps = ", ".join(str(plan.steps) for plan in planned)
    return Finding(
        tuple(checks),
        _labelled(reported("trajectory", None), planned[0].save_point * (len(planned) > 1)).name,
        f"{'/'.join(sorted(set(tiers)))} tier: state, batches and {steps} steps equal the "
        f"uninterrupted run; every negative control is noticed",
    )


def _labelled(check: Check, label: str) -> Check:
    if not label:
        return check
    return replace(check, name=f"{label}: {check.name}")


def _resume_checks(case: Case, plan: PlannedResume) -> tuple[list[Check], str]:
    runs = [case.evidence.run(p) for p in ("candidate", "candidate-again", plan.phase)]
    candidate, again, resumed = runs
    assert candidate is not None
    assert again is not None
    assert resumed is not None
    stack = [("candidate", candidate), ("candidate-again", again), (plan.phase, resumed)]
    checks, tier = continued_checks(case, plan, candidate, again, resumed)
    return [same_stack_check("same stack", stack), *checks], tier


def continued_checks(
    case: Case, plan: PlannedResume, candidate: Run, again: Run, resumed: Run
) -> tuple[list[Check], str]:
    """(checks, tier) of a run that continues `candidate`, of which `again` is the repetition.

    Whether the three ran on one stack is not looked at here.
    """
    last = plan.save_step + plan.steps
    window = range(plan.save_step + 1, last + 1)
    base, repeated = candidate.steps, again.steps
    missing = [s for s in window if s not in base or s not in repeated]
    if missing:
        text = f"step {missing[0]} was not recorded by both uninterrupted runs"
        return [undecided("uninterrupted pair", text)], "no"
    noise = _pair_noise(base, repeated, last)
    rule = _Rule(case, base, plan.save_step, plan.steps, noise)
    checks = [
        _pair_check(rule, last),
        *_fresh_checks(candidate, resumed),
        _state_check(case, plan, (candidate, again), resumed),
        _batches_check(case, plan, base, resumed.steps),
        _rate_check(rule, resumed),
        _trajectory_check(rule, case, plan, resumed),
        *(_control_check(rule, name, resumed) for name in plan.controls),
    ]
    if missing_controls := sorted(set(case.limits.names("controls")) - set(plan.controls)):
        checks.append(undecided("controls", f"the plan has no control {missing_controls[0]}"))
    return checks, rule.tier


def _pair_noise(base: Steps, repeated: Steps, last: int) -> float | None:
    """None when the two uninterrupted runs agree bitwise up to the last step, else the root mean
    square of their relative loss difference."""
    common = [s for s in sorted(base) if s in repeated and s <= last]
    if all(getattr(base[s], key) == getattr(repeated[s], key) for s in common for key in _HEX):
        return None
    return root_mean_square([_ratio(repeated[s], base[s]) for s in common])


def _pair_check(rule: _Rule, last: int) -> Check:
    if rule.noise is None:
        text = f"two uninterrupted runs agree bitwise to step {last}: bitwise tier"
        return reported("uninterrupted pair", 0.0, text, "relative", n=last)
    text = f"two uninterrupted runs differ by {rule.noise:.3g} rms to step {last}: tolerance tier"
    return reported("uninterrupted pair", rule.noise, text, "relative", n=last)


def _fresh_checks(candidate: Run, resumed: Run) -> list[Check]:
    """The resumed run is another process and has the same topology as the one that saved."""
    started = {(f.header.pid, f.header.start_unix_s) for f in candidate.files}
    same = [f for f in resumed.files if (f.header.pid, f.header.start_unix_s) in started]
    departures = [f"rank {f.header.rank} resumed in the process that had saved" for f in same]
    checks = [none_of("fresh process", departures, len(resumed.files), "resumed in new processes")]
    shapes = [_topologies(run) for run in (candidate, resumed)]
    if not all(shapes) or resumed.missing_ranks:
        return [*checks, undecided("topology", "the topology of a side was not recorded")]
    wrong = [] if shapes[0] == shapes[1] else ["the resumed run has another topology"]
    return [*checks, none_of("topology", wrong, len(resumed.files), "the same topology")]


def _topologies(run: Run) -> dict[int, tuple[int, Mapping[str, list[int]]]]:
    return {
        file.header.rank: (found[-1].world_size, found[-1].groups)
        for file in run.files
        if (found := file.of(Topology))
    }


def _state_check(case: Case, plan: PlannedResume, savers: tuple[Run, ...], resumed: Run) -> Check:
    """Every part of the state after the load has the digest that it had at the save."""
    saved = next((d for run in savers if (d := run.digests("save", plan.save_step))), {})
    loaded = resumed.digests("load", plan.save_step)
    if not saved or not loaded:
        side = "save" if not saved else "load"
        return undecided("state", f"no state was recorded at the {side} of step {plan.save_step}")
    parts = [*case.limits.names("state-parts")]
    parts += [f"rng.rank-{rank}" for rank in range(resumed.world_size)]
    absent_parts = [p for p in parts if p not in saved and p not in loaded]
    departures = [
        f"{part}: " + ("not saved" if part not in saved else "not loaded")
        for part in sorted(set(saved) ^ set(loaded))
    ]
    departures += [
        f"{part} differs after the load"
        for part in sorted(set(saved) & set(loaded))
        if saved[part] != loaded[part]
    ]
    if not departures and absent_parts:
        return undecided("state", f"no digest of {absent_parts[0]} was recorded")
    return none_of("state", departures, len(saved), f"{len(saved)} parts of the state equal")


def _batches_check(case: Case, plan: PlannedResume, base: Steps, found: Steps) -> Check:
    count = case.limits.whole("batches")
    window = range(plan.save_step + 1, plan.save_step + count + 1)
    compared = [s for s in window if s in found and s in base]
    departures = [
        f"step {s}: {key} differs from the uninterrupted run"
        for s in compared
        for key in _BATCH
        if getattr(found[s], key) != getattr(base[s], key)
    ]
    if not departures and len(compared) < count:
        return undecided("next batches", f"{len(compared)} of {count} next batches recorded")
    return none_of("next batches", departures, len(compared), f"{count} next batches equal")


def _rate_check(rule: _Rule, resumed: Run) -> Check:
    """The schedule goes on where it was: the rate is the same number in either tier."""
    departures = [
        f"step {s}: lr is {step.lr!r}, uninterrupted {rule.base[s].lr!r}"
        for file in resumed.files
        for s, step in sorted(file.steps().items())
        if s in rule.base and step.lr != rule.base[s].lr
    ]
    return none_of("learning rate", departures, len(resumed.steps), "learning rate as before")


def _trajectory_check(rule: _Rule, case: Case, plan: PlannedResume, resumed: Run) -> Check:
    """Loss and grad norm of the resumed steps, on every rank."""
    needed, departures = case.limits.whole("steps"), []
    compared = min(len(_after(file, rule)) for file in resumed.files)
    for file in resumed.files:
        found = file.steps()
        if early := sorted(s for s in found if s <= plan.save_step):
            departures.append(
                f"step {early[0]} was trained again, the save was at {plan.save_step}"
            )
        departures += rule.departures(found)
    if not departures and compared < needed:
        text = f"{compared} of {needed} resumed steps recorded"
        return undecided("trajectory", text, value=compared, limit=needed)
    meaning = f"{compared} steps equal the uninterrupted run ({rule.tier} tier)"
    return none_of("trajectory", departures, compared, meaning)


def _after(file: RecordFile, rule: _Rule) -> list[int]:
    window = range(rule.save_step + 1, rule.save_step + rule.steps + 1)
    return [s for s in file.steps() if s in window and s in rule.base]


def _without(files: tuple[RecordFile, ...], steps: list[int], resumed: Run) -> list[str]:
    """Ranks, and their steps, that a control left out."""
    known = {file.header.rank: file.steps() for file in files}
    ranks = [file.header.rank for file in resumed.files]
    lost = [f"rank {rank}" for rank in ranks if rank not in known]
    return lost or [
        f"step {step} of rank {rank}" for rank in ranks for step in steps if step not in known[rank]
    ]


def _control_check(rule: _Rule, name: str, resumed: Run) -> Check:
    """A control is a resume with a known defect: the rule must notice it."""
    label, files = f"control {name}", resumed.controls.get(name, ())
    found = files[0].steps() if files else {}
    steps = [s for s in sorted(found) if s in rule.base and s > rule.save_step]
    if not steps:
        return undecided(label, f"the negative control {name} was not run")
    if absent_ranks := _without(files, steps, resumed):
        return undecided(label, f"the negative control {name} has no records of {absent_ranks[0]}")
    wrong = rule.departures(found)
    wrong += [
        f"step {s}: another batch"
        for s in steps
        if found[s].tokens_sha256 != rule.base[s].tokens_sha256
    ]
    if wrong:
        return Check(label, OK, len(wrong), 1, f"noticed: {wrong[0]}", "departures", n=len(steps))
    text = f"the criterion does not notice {name} in {len(steps)} steps: it proves nothing"
    return Check(label, VIOLATED, 0, 1, text, "departures", n=len(steps))
