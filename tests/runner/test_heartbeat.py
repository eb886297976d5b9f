"""The heartbeat: which rank it ends, and that it ends one that stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from certify.records import Event, Stamp, Stamper, read_file, read_stamps
from runner.heartbeat import Heartbeat, stuck

pytestmark = pytest.mark.torch


def seen(rank: int, mark: str, step: int, age_s: float, state: str = "S") -> tuple:
    return Stamp(rank, 100 + rank, mark, step, 1), age_s, state


@pytest.mark.parametrize(
    ("ranks", "ended"),
    [
        ([seen(0, "forward", 7, 9.0), seen(1, "forward", 7, 9.0)], None),
        # The stopped one holds the others up, however far it is.
        ([seen(0, "forward", 7, 11.0), seen(1, "optimizer", 7, 11.0, "T")], 1),
        # Nobody is stopped: the one that is least far.
        ([seen(0, "backward", 7, 11.0), seen(1, "forward", 7, 11.0)], 1),
        ([seen(0, "data", 8, 11.0), seen(1, "optimizer", 7, 12.0)], 1),
        # A process that still imports and builds has more time.
        ([seen(0, "start", 0, 50.0), seen(1, "start", 0, 50.0)], None),
        ([seen(0, "start", 0, 101.0), seen(1, "start", 0, 50.0)], 0),
    ],
)
def test_which_rank_is_ended(ranks: list, ended: int | None) -> None:
    late = stuck(ranks, limit_s=10.0, start_s=100.0)
    assert (late.rank if late else None) == ended


def events(folder: Path) -> list[tuple[str, int, str]]:
    found = read_file(folder / "records" / "heartbeat-00000.jsonl").of(Event)
    return [(e.name, e.detail["rank"], e.detail["mark"]) for e in found]


def test_a_standing_rank_is_ended_and_a_lost_one_noted(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\nfrom certify.records import Stamper\n"
        "Stamper(pathlib.Path(sys.argv[1]), 1).at('backward', 3)\nprint('ready', flush=True)\n"
        "time.sleep(600)"
    )
    own = Stamper(tmp_path, 0)
    own.at("end", 9)  # this rank is done: it is never stuck
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as rank:  # fmt: skip
        assert rank.stdout is not None
        assert rank.stdout.readline() == "ready\n"
        heartbeat = Heartbeat(tmp_path, limit_s=10.0, start_s=100.0)
        heartbeat.look(0.0)
        heartbeat.look(9.9)
        assert rank.poll() is None
        heartbeat.look(10.1)
        assert rank.wait() == -signal.SIGKILL
    heartbeat.look(10.2)
    assert events(tmp_path) == [("rank_stuck", 1, "backward")]
    # One that dies by itself is noted once.
    Stamper(tmp_path, 1).at("data", 4)
    stamp = tmp_path / "progress" / "rank-00001.json"
    stamp.write_text(stamp.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {rank.pid}'))
    heartbeat.look(11.0)
    heartbeat.look(12.0)
    assert events(tmp_path)[1:] == [("rank_gone", 1, "data")]


def test_a_stamp_outlives_its_rank_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    stamper = Stamper(tmp_path, 2)
    stamper.at("save", 20)
    assert read_stamps(tmp_path) == {2: Stamp(2, os.getpid(), "save", 20, 2)}
    (tmp_path / "progress" / "rank-00003.json").write_text('{"rank": 3, "pi')
    assert set(read_stamps(tmp_path)) == {2}
