"""The synthetic campaign with a reshard phase: a chain of layouts that passes."""

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
    Header,
    Record,
    RecordFile,
    State,
    Step,
    Topology,
)
from tests.criteria.synthetic import SAVE, STACK, Campaign

LAYOUTS = (
    (4, {"fsdp_size": 4, "ep_size": 4}),
    (1, {"fsdp_size": 1, "ep_size": 1}),
    (2, {"fsdp_size": 2, "ep_size": 1}),
)


def groups(world: int, sizes: dict[str, int], rank: int) -> dict[str, list[int]]:
    """Process groups of consecutive ranks, as a run records them."""
    found = {"world": list(range(world))}
    for key, size in sizes.items():
        if key == "fsdp_size" or size > 1:
            first = rank // size * size
            found[key.removesuffix("_size")] = list(range(first, first + size))
    return found


class Chain(Campaign):
    """hops: run id -> rank -> records, beside the runs of a campaign."""

    def __init__(self) -> None:
        super().__init__()
        for rank in self.runs["candidate"]:
            body = self.runs["candidate"][rank]
            shape = Topology(2, groups(2, {"fsdp_size": 2}, rank), "gloo")
            self.runs["candidate"][rank] = [shape if isinstance(r, Topology) else r for r in body]
        self.hops = {f"c1-reshard-{n}": self._hop(n) for n in range(1, len(LAYOUTS) + 1)}
        self.plan["requested"] = ["reshard"]
        self.plan["reshard"] = {
            "save_step": SAVE,
            "hops": [
                {"run": f"c1-reshard-{n}", "world_size": world, "sizes": sizes}
                for n, (world, sizes) in enumerate(LAYOUTS, start=1)
            ],
        }

    def _hop(self, number: int) -> dict[int, list[Record]]:
        world, sizes = LAYOUTS[number - 1]
        return {rank: self._rank(number, world, sizes, rank) for rank in range(world)}

    def _rank(self, number: int, world: int, sizes: dict[str, int], rank: int) -> list[Record]:
        run = f"c1-reshard-{number}"
        loaded = self.state("load", SAVE)
        # Random states belong to ranks: another layout has others.
        digests = {k: v for k, v in loaded.digests.items() if not k.startswith("rng.")}
        digests["rng.rank-0"] = f"{number}" * 64
        return [
            Header(run, "candidate", "fsdp2", rank, world, 1000 * number + rank, 3e9 + number),
            Environment("3.11.7", "Linux", "cpu", "CPU", {"torch": "2.13.0"}, STACK, {}),
            Topology(world, groups(world, sizes, rank), "gloo"),
            State("load", SAVE, digests),
            State("save", SAVE, digests),
            self.step("candidate", SAVE + 1),
            End("completed", SAVE + 1, 5.0, 5.0),
        ]

    def hop(self, number: int, select: type, change: Any, **where: Any) -> Chain:
        """Change the records of a kind in one hop; None leaves them out. where: their fields."""
        hits = 0
        for rank, body in self.hops[f"c1-reshard-{number}"].items():
            kept: list[Record] = []
            for record in body:
                is_meant = isinstance(record, select) and all(
                    getattr(record, name) == value for name, value in where.items()
                )
                hits += is_meant
                new = change(record) if is_meant else record
                kept += [] if new is None else [new]
            self.hops[f"c1-reshard-{number}"][rank] = kept
        assert hits, "the mutation changed nothing"
        return self

    def digest(self, number: int, at: str, part: str, value: str | None) -> Chain:
        """Replace a digest of one hop's state, or leave it out."""

        def change(state: State) -> State:
            kept = {k: v for k, v in state.digests.items() if k != part}
            return dataclasses.replace(state, digests=kept | ({part: value} if value else {}))

        return self.hop(number, State, change, at=at)

    def next_step(self, number: int, **to: Any) -> Chain:
        """Replace fields of the step that a hop trains."""
        return self.hop(number, Step, lambda step: dataclasses.replace(step, **to))

    def gate(self, name: str) -> GateResult:
        """The result of one gate, over the plan as the judge reads it."""
        plan = parse_plan(json.loads(json.dumps(self.plan)), "plan.json")
        hops = {run: Run(run, _files(body)) for run, body in self.hops.items() if body}
        evidence = Evidence(self.evidence().runs, hops=hops)
        return judge_gate(name, plan, evidence, load_criteria())


def _files(body: dict[int, list[Record]]) -> tuple[RecordFile, ...]:
    return tuple(
        RecordFile(Path(f"rank-{rank:05d}.jsonl"), found[0], tuple(found), False)  # type: ignore[arg-type]
        for rank, found in sorted(body.items())
    )
