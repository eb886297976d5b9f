"""The synthetic campaign with a worker-loss phase that passes: four starts of two ranks."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from certify.criteria.evidence import Evidence, Run
from certify.criteria.judge import judge_gate
from certify.criteria.load import load_criteria
from certify.criteria.outcome import GateResult
from certify.criteria.plan import parse_plan
from certify.records import (
    End,
    Environment,
    Event,
    Header,
    Record,
    RecordFile,
    State,
)
from tests.criteria.synthetic import STACK, Campaign, digest

EVERY, LAST = 5, 30
# Of each start: loaded step, last trained step, checkpoints refused.
STARTS = ((0, 7, 0), (5, 16, 0), (10, 22, 1), (20, LAST, 0))
KINDS = ("kill-forward", "corrupt-checkpoint", "hang")
AGENT = "torchrun c10d"
BEGAN = 5e9


class Attacked(Campaign):
    """ranks: rank -> list of starts, each a list of records; injector, heartbeat: events."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks = {
            rank: [self._start(rank, n, *start) for n, start in enumerate(STARTS)]
            for rank in range(2)
        }
        self.injector = [
            event
            for n, kind in enumerate(KINDS, start=1)
            for event in (
                self._event("injected", n, 0.0, kind=kind, rank=n % 2, mark="forward", fired=True),
                self._event("recovered", n, 20.0, orphans=0),
            )
        ]
        self.heartbeat = [
            self._event("rank_stuck" if kind == "hang" else "rank_gone", n, 1.0)
            for n, kind in enumerate(KINDS, start=1)
        ]
        self.plan["requested"] = ["worker-loss"]
        self.plan["runs"]["worker-loss"] = "c1-worker-loss"
        self.plan["worker_loss"] = {
            "agent": AGENT,
            "save_every": EVERY,
            "heartbeat_s": 10,
            "last_step": LAST,
            "injections": [
                {"number": n, "kind": kind, "rank": n % 2, "mark": "forward", "gap": 2}
                for n, kind in enumerate(KINDS, start=1)
            ],
        }

    def _event(self, name: str, number: int, after_s: float, **detail: Any) -> Event:
        return Event(name, 0, BEGAN + 100 * number + after_s, {"number": number, **detail})

    def _start(self, rank: int, number: int, loaded: int, last: int, refused: int) -> list[Record]:
        head = Header("c1-worker-loss", "candidate", "fsdp2", rank, 2, 7000 + 10 * number + rank,
                      BEGAN + 100 * number, number)  # fmt: skip
        agent = {"agent": AGENT, "torchelastic": True, "max_restarts": 9}
        body: list[Record] = [
            head,
            Environment("3.11.7", "Linux", "cpu", "CPU", {"torch": "2.13.0"}, STACK, {}),
            Event("recovery_agent", 0, head.start_unix_s, agent),
        ]
        body += [Event("checkpoint_refused", loaded + EVERY, head.start_unix_s)] * refused
        if loaded:
            body.append(Event("checkpoint_loaded", loaded, head.start_unix_s))
            body.append(self._state("load", loaded))
        for n in range(loaded + 1, last + 1):
            body.append(self.step("candidate", n))
            if n % EVERY == 0:
                body.append(self._state("save", n))
        if last == LAST:
            body.append(End("completed", LAST, 5.0, 5.0))
        return body

    def _state(self, at: str, step: int) -> State:
        return State(at, step, {"params": digest("params", step)})

    def change(self, start: int, select: Any, to: Any, rank: int | None = None) -> Attacked:
        """Change records of one start, of one rank or all; None leaves them out."""
        hits = 0
        for r, starts in self.ranks.items():
            if rank is not None and r != rank:
                continue
            kept = []
            for record in starts[start]:
                hits += bool(select(record))
                new = to(record) if select(record) else record
                kept += [] if new is None else [new]
            starts[start] = kept
        assert hits, "the mutation changed nothing"
        return self

    def event(self, stream: str, name: str, number: int, **to: Any) -> Attacked:
        """Change the detail of an event beside the run; ``drop=True`` leaves it out; after_s:
        seconds since the injection."""
        events: list[Event] = getattr(self, stream)
        place = next(
            i for i, e in enumerate(events) if (e.name, e.detail["number"]) == (name, number)
        )
        if to.pop("drop", False):
            del events[place]
            return self
        after_s = to.pop("after_s", None)
        old = events[place]
        unix_s = old.unix_s if after_s is None else BEGAN + 100 * number + after_s
        events[place] = dataclasses.replace(old, unix_s=unix_s, detail={**old.detail, **to})
        return self

    def gate(self, name: str) -> GateResult:
        """The result of one gate, over the plan as the judge reads it."""
        plan = parse_plan(json.loads(json.dumps(self.plan)), "plan.json")
        files = tuple(
            _file(f"rank-{rank:05d}", [r for start in starts for r in start])
            for rank, starts in sorted(self.ranks.items())
        )
        beside = {
            name: (_file(f"{name}-00000", [_header(name), *getattr(self, name)]),)
            for name in ("injector", "heartbeat")
        }
        run = Run("c1-worker-loss", files, beside=beside)
        runs = {**self.evidence().runs, "worker-loss": run}
        return judge_gate(name, plan, Evidence(runs), load_criteria())


def _header(role: str) -> Header:
    return Header("c1-worker-loss", role, "", 0, 1, 1, BEGAN)


def _file(name: str, body: list[Record]) -> RecordFile:
    headers = [r for r in body if isinstance(r, Header)]
    return RecordFile(Path(f"{name}.jsonl"), headers[-1], tuple(body), False)
