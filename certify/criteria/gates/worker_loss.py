"""worker-loss: a run whose ranks, launcher, disk and checkpoints were attacked went on by itself.

Every planned injection fired, was noticed by our own heartbeat, and was followed by a start that
trained on. What a start loaded is what was saved; it lost no more steps than lie between two
saves (and one such stretch more for each damaged checkpoint that it refused). The ledger of
batches that count, from the first step to the last, has each batch of the plan once. Losses are
those of the uninterrupted candidate. Who starts lost ranks again is named by the run itself; where
nobody is, nothing was shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.criteria.case import Case, absent, relative_difference
from certify.criteria.gates.conditions import end_check, same_stack_check
from certify.criteria.outcome import (
    OK,
    VIOLATED,
    Check,
    Finding,
    at_most,
    none_of,
    reported,
    undecided,
)
from certify.records import Event, Header, State, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certify.criteria.evidence import Run
    from certify.criteria.plan import PlannedInjection, PlannedWorkerLoss
    from certify.records import Record, RecordFile

PHASE = "worker-loss"


@dataclass(frozen=True)
class Attempt:
    """One start of a rank. loaded: the step it continued after, 0 for a start from nothing;
    refused: damaged checkpoints that it passed over; steps: in the order it trained them."""

    header: Header
    loaded: int
    refused: int
    steps: tuple[Step, ...]
    states: tuple[State, ...]


def attempts(file: RecordFile) -> list[Attempt]:
    """The starts of one rank, in order: each begins with a header."""
    parts: list[list[Record]] = []
    for record in file.records:
        if isinstance(record, Header):
            parts.append([])
        parts[-1].append(record)
    return [_attempt(part) for part in parts]


def _attempt(records: Sequence[Record]) -> Attempt:
    events = [r for r in records if isinstance(r, Event)]
    loaded = [e.step for e in events if e.name == "checkpoint_loaded"]
    header = records[0]
    assert isinstance(header, Header)
    return Attempt(
        header,
        loaded[-1] if loaded else 0,
        sum(e.name == "checkpoint_refused" for e in events),
        tuple(r for r in records if isinstance(r, Step)),
        tuple(r for r in records if isinstance(r, State)),
    )


def judge(case: Case) -> Finding:
    """Decide the gate for the planned injections."""
    plan = case.plan.worker_loss
    if plan is None or not plan.injections:
        return Finding((undecided("plan", "the plan has no worker loss"),), "plan", "")
    checks = absent(case, "candidate", PHASE)
    if checks:
        return Finding(tuple(checks), checks[0].name, "")
    run, candidate = case.evidence.run(PHASE), case.evidence.run("candidate")
    assert run is not None
    assert candidate is not None
    injector, heartbeat = _events(run, "injector"), _events(run, "heartbeat")
    starts = {file.header.rank: attempts(file) for file in run.files}
    recoveries = [
        c
        for row in plan.injections
        for c in _injection_checks(case, plan, row, injector, heartbeat)
    ]
    checks = [
        _agent_check(plan, run),
        same_stack_check("same stack", [("candidate", candidate), (PHASE, run)]),
        *recoveries,
        _lost_check(plan, starts),
        _loaded_check(starts),
        _ledger_check(case, plan, starts),
        *_trajectory_checks(case, candidate, starts),
        end_check(PHASE, run),
        _unplanned(injector, heartbeat),
    ]
    count = len(plan.injections)
    return Finding(
        tuple(checks),
        "batch ledger",
        f"{count} injections, {count} recoveries by {plan.agent}: every batch once, "
        f"losses as uninterrupted",
    )


def _events(run: Run, stream: str) -> list[Event]:
    found = [e for file in run.beside.get(stream, ()) for e in file.of(Event)]
    return sorted(found, key=lambda event: event.unix_s)


def _agent_check(plan: PlannedWorkerLoss, run: Run) -> Check:
    """The run itself says who starts it again, and that this agent really had started it."""
    for file in run.files:
        where = f"rank {file.header.rank}"
        named = [e.detail for e in file.of(Event) if e.name == "recovery_agent"]
        if not named:
            return undecided("recovery agent", f"{where} names no recovery agent")
        if plan.agent not in {str(detail.get("agent")) for detail in named}:
            text = f"{where} names another recovery agent than the plan, {plan.agent!r}"
            return Check("recovery agent", VIOLATED, detail=text)
        if not all(d.get("torchelastic") and d.get("max_restarts") for d in named):
            return undecided("recovery agent", f"{where} was started by nobody who restarts it")
    return Check("recovery agent", OK, plan.agent, plan.agent, f"recovered by {plan.agent}")


def _injection_checks(
    case: Case,
    plan: PlannedWorkerLoss,
    row: PlannedInjection,
    injector: list[Event],
    heartbeat: list[Event],
) -> list[Check]:
    """It fired, where it was to fire; it was noticed in time; the run trained again."""
    label = f"injection {row.number} ({row.kind})"
    mine = {e.name: e for e in injector if e.detail.get("number") == row.number}
    fired = mine.get("injected")
    if fired is None or fired.detail.get("fired") is not True:
        why = "was not made" if fired is None else "did not take effect"
        return [undecided(label, f"{label} {why}: it proves nothing")]
    found = {key: fired.detail.get(key) for key in ("kind", "rank", "mark")}
    wanted = {"kind": row.kind, "rank": row.rank, "mark": row.mark}
    wrong = [f"{label}: {k} is {found[k]!r}, planned {wanted[k]!r}" for k in wanted
             if found[k] != wanted[k]]  # fmt: skip
    checks = [none_of(f"{label}: as planned", wrong, len(wanted), "fired as planned")]
    done = mine.get("recovered")
    noticed = [
        e
        for e in heartbeat
        if e.unix_s >= _began_s(fired) and (done is None or e.unix_s <= done.unix_s)
    ]
    limit = case.limits["detect-extra"]
    if noticed:
        seconds = noticed[0].unix_s - _began_s(fired)
        over = max(0.0, seconds - plan.heartbeat_s)
        text = f"{label}: noticed after {seconds:.1f} s ({noticed[0].name})"
        checks.append(at_most(f"{label}: noticed beyond the heartbeat", over, limit, text))
    else:
        text = f"{label}: the heartbeat noticed nothing"
        checks.append(Check(f"{label}: noticed", VIOLATED, None, limit.value, text, "s"))
    if done is None:
        text = f"{label}: the run did not go on by itself"
        checks.append(Check(f"{label}: recovered", VIOLATED, None, None, text))
        return checks
    orphans = done.detail.get("orphans")
    left = [] if orphans == 0 else [f"{label}: {orphans} processes were left over"]
    checks.append(none_of(f"{label}: left over", left, 1, "no process was left over"))
    seconds = done.unix_s - _began_s(fired)
    checks.append(reported(f"{label}: trained again after", seconds, unit="s"))
    return checks


def _began_s(fired: Event) -> float:
    """When the injector began: it records once it has proof, the heartbeat may be faster."""
    began = fired.detail.get("began_unix_s")
    return float(began) if isinstance(began, (int, float)) else fired.unix_s


def _lost_check(plan: PlannedWorkerLoss, starts: dict[int, list[Attempt]]) -> Check:
    """Steps that a start had to train again."""
    wrong, most, n = [], 0, 0
    last = dict.fromkeys(range(max(map(len, starts.values()))), 0)
    for rank_starts in starts.values():
        for number, start in enumerate(rank_starts):
            last[number] = max([last[number], *(step.step for step in start.steps)])
    for number, start in enumerate(starts[min(starts)]):
        if number == 0:
            continue
        reached = max(last[number - 1], starts[min(starts)][number - 1].loaded)
        lost, allowed = reached - start.loaded, plan.save_every * (1 + start.refused)
        most, n = max(most, lost), n + 1
        if lost > allowed:
            wrong.append(f"start {number}: {lost} steps lost, {allowed} lie between two saves")
    return none_of("lost steps", wrong, n, f"at most {most} steps were trained again")


def _loaded_check(starts: dict[int, list[Attempt]]) -> Check:
    """What was loaded is what had been saved, on every rank: no partial or mixed checkpoint."""
    wrong, n = [], 0
    for rank, rank_starts in sorted(starts.items()):
        saved: dict[int, dict[str, str]] = {}
        for number, start in enumerate(rank_starts):
            for state in start.states:
                if state.at == "save":
                    saved[state.step] = state.digests
                if state.at != "load":
                    continue
                n += 1
                if saved.get(state.step) != state.digests:
                    wrong.append(
                        f"rank {rank}, start {number}: the state of step {state.step} is not as "
                        f"it was saved"
                    )
    if not n:
        return undecided("loaded states", "no start loaded a checkpoint")
    return none_of("loaded states", wrong, n, f"{n} loaded states are the saved ones")


def _ledger_check(case: Case, plan: PlannedWorkerLoss, starts: dict[int, list[Attempt]]) -> Check:
    """The batches that count, on every rank: what a start loaded, then what it trained."""
    wrong: list[str] = []
    expected = {step.step: step for step in case.plan.expected.steps}
    for rank, rank_starts in sorted(starts.items()):
        ledger: dict[int, Step] = {}
        for number, start in enumerate(rank_starts):
            ledger = {s: step for s, step in ledger.items() if s <= start.loaded}
            where, following = f"rank {rank}, start {number}", start.loaded + 1
            for step in start.steps:
                if step.step != following:
                    wrong.append(f"{where}: step {step.step} follows step {following - 1}")
                ledger[step.step], following = step, step.step + 1
        wrong += [
            f"rank {rank}: step {s} is missing"
            for s in range(1, plan.last_step + 1)
            if s not in ledger
        ][:1]
        batches = [step.batch for _, step in sorted(ledger.items())]
        if len(set(batches)) != len(batches):
            repeated = next(b for b in batches if batches.count(b) > 1)
            wrong.append(f"rank {rank}: batch {repeated} was trained on twice")
        wrong += [
            f"rank {rank}, step {s}: the batch is not that of the plan"
            for s, step in sorted(ledger.items())
            if s not in expected
            or (step.tokens_sha256, step.mask_sha256)
            != (expected[s].tokens_sha256, expected[s].mask_sha256)
        ]
    return none_of(
        "batch ledger", wrong, plan.last_step, f"{plan.last_step} batches, each once, none left out"
    )


def _trajectory_checks(case: Case, candidate: Run, starts: dict[int, list[Attempt]]) -> list[Check]:
    """Every step of every start, those trained again too, against the uninterrupted run."""
    base, row = candidate.steps, case.limits["each-step"]
    trained = [step for rank in starts.values() for start in rank for step in start.steps]
    compared = [step for step in trained if step.step in base]
    if not compared:
        return [undecided("trajectory", "no step can be compared with the uninterrupted run")]
    same = sum(step.loss_hex == base[step.step].loss_hex for step in compared)
    worst = max(relative_difference(step.loss, base[step.step].loss) for step in compared)
    text = f"{same} of {len(compared)} losses are those of the uninterrupted run bit for bit"
    return [
        at_most("trajectory", worst, row, f"{text}, the farthest is off by {worst:.3g}"),
        reported("losses equal bit for bit", same, text, n=len(compared)),
    ]


def _unplanned(injector: list[Event], heartbeat: list[Event]) -> Check:
    """Alarms of the heartbeat while nothing had been done to the run."""
    ends = {e.detail.get("number"): e.unix_s for e in injector if e.name == "recovered"}
    spans = [
        (_began_s(e), ends.get(e.detail.get("number"), e.unix_s))
        for e in injector
        if e.name == "injected"
    ]
    odd = [e for e in heartbeat if not any(a <= e.unix_s <= b for a, b in spans)]
    return reported("alarms without an injection", len(odd), n=len(heartbeat))
