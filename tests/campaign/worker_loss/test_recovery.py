"""A real run on one rank: killed, stopped, its newest checkpoint damaged, its launcher killed, its
disk filled; it goes on by itself and ends as if nothing had happened."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certify.campaign.layout import Layout
from certify.campaign.worker_loss.schedule import Injection
from certify.criteria.gates.worker_loss import attempts
from certify.records import End, Event, RecordFile, State, read_file, read_run
from certify.runspec import CheckpointSpec, RecoverySpec, write_spec
from tests.runner.tiny import ROOT, TRAINING, environment, prepare, trained

pytestmark = pytest.mark.torch

LAST, EVERY = 30, 3
INJECTIONS = (
    Injection(1, "kill-backward", 0, "backward", 1),
    Injection(2, "hang", 0, "forward", 2),
    Injection(3, "corrupt-checkpoint", 0, "data", 4),
    Injection(4, "disk-full", 0, "save", 1),
    Injection(5, "kill-launcher", 0, "optimizer", 1),
)


@dataclasses.dataclass(frozen=True)
class Attacked:
    """What the attacked run left. output: of all its processes."""

    plain: RecordFile
    ranks: RecordFile
    injector: list[Event]
    heartbeat: list[Event]
    output: str


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    prepared = prepare(tmp_path_factory.mktemp("attacked"))
    training = dataclasses.replace(TRAINING, steps=LAST, decay_steps=LAST, micro_batch=8)
    plain = prepared.spec("plain", ranks=1, ep=1, training=training)
    layout = Layout(prepared.folder)
    spec = dataclasses.replace(
        plain,
        run_id="attacked",
        run_dir=str(layout.run("attacked")),
        checkpoint=CheckpointSpec(save_steps=tuple(range(EVERY, LAST + 1, EVERY))),
        recovery=RecoverySpec(agent="torchrun c10d"),
    )
    trained(plain, ranks=1)
    write_spec(spec, layout.run("attacked") / "spec.json")
    task: dict[str, Any] = {
        "root": str(layout.root), "run_id": "attacked", "world_size": 1,
        "spec": str(layout.run("attacked") / "spec.json"), "max_restarts": 9,
        "heartbeat_s": 6, "start_s": 120, "recover_s": 150, "end_s": 150,
        "injections": [dataclasses.asdict(injection) for injection in INJECTIONS],
    }  # fmt: skip
    path = layout.root / "task.json"
    path.write_text(json.dumps(task))
    done = subprocess.run(
        [sys.executable, "-m", "certify.campaign.worker_loss.supervise", str(path)],
        env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    log = layout.log("attacked")
    output = done.stdout + done.stderr + (log.read_text() if log.exists() else "")
    assert done.returncode == 0, output

    def beside(name: str) -> list[Event]:
        return read_file(layout.run("attacked") / "records" / f"{name}-00000.jsonl").of(Event)

    ranks, plain_run = (read_run(Path(s.run_dir))[0] for s in (spec, plain))
    return Attacked(plain_run, ranks, beside("injector"), beside("heartbeat"), output)


def test_every_injection_fired_and_the_run_went_on(attacked: Attacked) -> None:
    fired = [e for e in attacked.injector if e.name == "injected"]
    assert [e.detail["kind"] for e in fired] == [i.kind for i in INJECTIONS], attacked.output
    assert all(e.detail["fired"] is True for e in fired)
    assert [e.detail["mark"] for e in fired] == [i.mark for i in INJECTIONS]
    back = [e for e in attacked.injector if e.name == "recovered"]
    assert [e.detail["number"] for e in back] == [i.number for i in INJECTIONS]
    assert all(e.detail["orphans"] == 0 for e in back)
    end = attacked.ranks.last(End)
    assert end is not None
    assert (end.status, attacked.injector[-1].detail) == ("completed", {"exit_code": 0})


def test_the_heartbeat_ended_the_stopped_rank(attacked: Attacked) -> None:
    hang = next(e for e in attacked.injector if e.detail.get("kind") == "hang")
    ended = [e for e in attacked.heartbeat if e.name == "rank_stuck"]
    assert hang.detail["pid"] in [e.detail["pid"] for e in ended]


def test_the_losses_are_those_of_the_run_that_nobody_touched(attacked: Attacked) -> None:
    wanted = attacked.plain.steps()
    starts = attempts(attacked.ranks)
    assert len(starts) == len(INJECTIONS) + 1
    for start in starts:
        for step in start.steps:
            assert step.loss_hex == wanted[step.step].loss_hex
            assert step.tokens_sha256 == wanted[step.step].tokens_sha256
        assert [s.step for s in start.steps] == [
            *range(start.loaded + 1, start.loaded + 1 + len(start.steps))
        ]
    final = [s.digests for s in attacked.ranks.of(State) if s.at == "end"]
    assert final == [s.digests for s in attacked.plain.of(State) if s.at == "end"]


def test_a_damaged_checkpoint_was_passed_over(attacked: Attacked) -> None:
    damaged = next(e for e in attacked.injector if e.detail.get("kind") == "corrupt-checkpoint")
    step = int(damaged.detail["checkpoint"].removeprefix("step-"))
    refused = [e for e in attacked.ranks.of(Event) if e.name == "checkpoint_refused"]
    assert step in [e.step for e in refused]
    assert "sha256" in refused[0].detail["reason"]
    after = attempts(attacked.ranks)[3]
    assert (after.loaded, after.refused) == (step - EVERY, 1)
