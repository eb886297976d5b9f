"""cross-backend: what one side wrote is what the other holds, on runs of their own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certify.criteria.evidence import Evidence, Run
from certify.criteria.judge import judge_gate
from certify.criteria.load import load_criteria
from certify.criteria.plan import parse_plan
from certify.records import Component, End, Header, Record, RecordFile, State, Step
from tests.criteria.synthetic import SAVE, WEIGHTS, Campaign, digest

LEFT, TRAINED = digest("params", SAVE), digest("trained by megatron")
MOMENTS = {part: digest("crossing", part) for part in ("exp_avg", "exp_avg_sq", "optimizer_step")}
# leg -> (backend, ranks, states as (at, step, params), whether it trains)
LEGS: dict[str, tuple[str, int, tuple[tuple[str, int, str], ...], bool]] = {
    "out": ("fsdp2", 2, (("init", 0, WEIGHTS), ("load", SAVE, LEFT), ("end", SAVE, LEFT)), False),
    "stay": ("fsdp2", 2, (("init", 0, LEFT),), True),
    "over": ("mcore", 2, (("init", 0, LEFT), ("save", 1, TRAINED)), True),
    "repack": (
        "mcore",
        1,
        (("init", 0, WEIGHTS), ("load", 1, TRAINED), ("end", 1, TRAINED)),
        False,
    ),
    "back": ("fsdp2", 2, (("init", 0, TRAINED),), False),
}


class Crossing(Campaign):
    """legs: name -> rank -> records, beside the runs of a campaign."""

    def __init__(self) -> None:
        super().__init__()
        self.legs = {name: self._leg(name) for name in LEGS}
        self.plan["requested"] = ["cross-backend"]
        self.plan["crossing"] = {
            "save_step": SAVE,
            "legs": [
                {"name": name, "run": f"c1-{name}", "backend": backend, "world_size": world}
                for name, (backend, world, _, _) in LEGS.items()
            ],
        }

    def _leg(self, name: str) -> dict[int, list[Record]]:
        backend, world, states, trains = LEGS[name]
        package = "megatron" if backend == "mcore" else "transformers"
        saved = self.state("save", SAVE).digests
        body: dict[int, list[Record]] = {}
        for rank in range(world):
            header = Header(f"c1-{name}", "candidate", backend, rank, world, 7000 + rank, 5e9)
            model = Component("model", "M", f"{package}.m", "m.py", package, "1", "00", {})
            kept: list[Record] = [header, model]
            for at, number, params in states:
                others = saved if params == LEFT else MOMENTS
                kept.append(State(at, number, {**others, "params": params}))
            kept += [dataclasses.replace(self.step("candidate", 1))] if trains else []
            body[rank] = [*kept, End("completed", 1, 1.0, 1.0)]
        return body

    def change(self, leg: str, kind: type, change: Any, **where: Any) -> None:
        hits = 0
        for rank, body in self.legs[leg].items():
            kept: list[Record] = []
            for record in body:
                meant = isinstance(record, kind)
                meant = meant and all(getattr(record, k) == v for k, v in where.items())
                hits += meant
                new = change(record) if meant else record
                kept += [] if new is None else [new]
            self.legs[leg][rank] = kept
        assert hits, "the mutation changed nothing"

    def result(self) -> Any:
        plan = parse_plan(json.loads(json.dumps(self.plan)), "plan.json")
        hops = {f"c1-{leg}": Run(f"c1-{leg}", _files(b)) for leg, b in self.legs.items() if b}
        evidence = Evidence(self.evidence().runs, hops=hops)
        return judge_gate("cross-backend", plan, evidence, load_criteria())


def _files(body: dict[int, list[Record]]) -> tuple[RecordFile, ...]:
    return tuple(
        RecordFile(Path(f"rank-{rank:05d}.jsonl"), found[0], tuple(found), False)  # type: ignore[arg-type]
        for rank, found in sorted(body.items())
    )


def digests(leg: str, at: str, **parts: str | None) -> Callable[[Crossing], None]:
    """Replace parts of a leg's state; None leaves one out."""

    def change(state: State) -> State:
        merged = {**state.digests, **parts}
        return dataclasses.replace(state, digests={k: v for k, v in merged.items() if v})

    return lambda c: c.change(leg, State, change, at=at)


def one_rank(c: Crossing) -> None:
    c.plan["crossing"]["legs"][2]["world_size"] = 1
    c.legs["over"] = {0: c.legs["over"][0]}
    c.change("over", Header, lambda h: dataclasses.replace(h, world_size=1))


def untrained(c: Crossing) -> None:
    """Megatron hands on the weights that it was given."""
    for leg, at in (("over", "save"), ("repack", "load"), ("repack", "end"), ("back", "init")):
        digests(leg, at, params=LEFT)(c)


def to(leg: str, kind: type, **values: Any) -> Callable[[Crossing], None]:
    return lambda c: c.change(leg, kind, lambda r: dataclasses.replace(r, **values))


X = "ff" * 32
ROWS: list[tuple[Callable[[Crossing], Any], str, str]] = [
    (lambda c: None, "PASS", "the same bits, without a cast"),
    (digests("out", "load", exp_avg=X), "FAIL", "candidate save -> out load: exp_avg is not"),
    (digests("out", "end", params=X), "FAIL", "out load -> out end: params is not"),
    (digests("over", "init", params=X), "FAIL", "out end -> over init: params is not"),
    (digests("stay", "init", params=X), "FAIL", "out end -> stay init: params is not"),
    (digests("repack", "load", exp_avg_sq=X), "FAIL", "over save -> repack load: exp_avg_sq"),
    (digests("repack", "load", optimizer_step=X), "FAIL", "repack load: optimizer_step is not"),
    (digests("back", "init", params=X), "FAIL", "repack end -> back init: params is not"),
    (digests("repack", "load", exp_avg=None), "INCONCLUSIVE", "no digest of exp_avg was recorded"),
    (
        lambda c: c.change("back", State, lambda s: None, at="init"),
        "INCONCLUSIVE",
        "no digest of params was recorded",
    ),
    (untrained, "FAIL", "nothing was trained"),
    (to("over", Step, loss=1.0), "FAIL", "next loss is"),
    (to("stay", Step, tokens_sha256=X), "FAIL", "tokens_sha256 of the step differs"),
    (
        lambda c: c.change("over", Step, lambda s: None),
        "INCONCLUSIVE",
        "stay and over did not both record a step",
    ),
    (to("over", Component, package="transformers"), "FAIL", "over: its model is of transformers"),
    (to("over", Header, backend="fsdp2"), "FAIL", "over: the records are of"),
    (to("back", Header, run_id="c0-back"), "FAIL", "back: the records are of"),
    (one_rank, "FAIL", "nothing was divided anew"),
    (lambda c: c.legs["over"].pop(1), "FAIL", "over: rank 1 left no records"),
    (lambda c: c.legs.pop("repack"), "INCONCLUSIVE", "the leg repack left no records"),
    (to("out", End, status="failed"), "FAIL", "out rank 0: ended as failed"),
    (lambda c: c.plan.pop("crossing"), "INCONCLUSIVE", "the plan has no crossing"),
    (lambda c: c.plan["crossing"]["legs"].pop(), "INCONCLUSIVE", "the plan has no leg back"),
    (lambda c: c.drop_run("candidate"), "INCONCLUSIVE", "the run candidate left no records"),
]


@pytest.mark.parametrize("row", ROWS)
def test_table(row: tuple[Callable[[Crossing], Any], str, str]) -> None:
    spoil, verdict, reason = row
    crossing = Crossing()
    spoil(crossing)
    result = crossing.result()
    assert result.verdict == verdict, result.reason
    assert reason in result.reason


def test_a_rank_with_other_weights_is_seen() -> None:
    crossing = Crossing()
    crossing.legs["back"][1] = [
        dataclasses.replace(r, digests={**r.digests, "params": X}) if isinstance(r, State) else r
        for r in crossing.legs["back"][1]
    ]
    result = crossing.result()
    assert result.verdict == "FAIL"
    assert "differs from another rank's" in result.reason
