"""Harm done to processes and files from outside, each with its proof."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from certify.campaign.processes import is_alive, process_state
from certify.campaign.worker_loss import inject
from certify.campaign.worker_loss.schedule import Injection
from certify.records import read_stamps

SLEEPS = "import time\nwhile True: time.sleep(0.01)"
# Stamps one step after another, as a rank does, for ever.
STAMPS = """
import itertools, pathlib, sys, time
from certify.records import Stamper
stamper = Stamper(pathlib.Path(sys.argv[1]), 1)
for step in itertools.count(1):
    for mark in ("data", "forward", "backward", "optimizer"):
        stamper.at(mark, step)
        time.sleep(0.005)
"""
WRITES = """
import sys
print("ready", flush=True)
sys.stdin.readline()
try:
    with open(sys.argv[1], "wb") as file:
        file.write(bytes(100_000))
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test starts; ended with it."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(started: list[subprocess.Popen[str]], code: str, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    started.append(process)
    return process


def test_a_rank_is_caught_where_the_schedule_wants_it(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    process = start(started, STAMPS, str(tmp_path))
    wanted = Injection(1, "kill-backward", 1, "backward", gap=3)
    stamp = inject.caught(tmp_path, wanted, 2, lambda: process.poll() is None)
    assert stamp is not None
    assert (stamp.mark, stamp.pid, stamp.step >= 5) == ("backward", process.pid, True)
    assert process_state(process.pid) == "T"
    # It stands still until something is done to it, and stays where it was.
    assert inject.kill(stamp.pid)["fired"] is True
    assert process.wait() == -9
    assert read_stamps(tmp_path)[1] == stamp


def test_nothing_is_caught_once_the_run_ends(tmp_path: Path) -> None:
    wanted = Injection(1, "hang", 0, "data", gap=1)
    assert inject.caught(tmp_path, wanted, 1, lambda: False) is None


def test_a_hang_is_a_stopped_process(started: list[subprocess.Popen[str]]) -> None:
    process = start(started, SLEEPS)
    assert inject.hang(process.pid)["fired"] is False
    process.send_signal(19)
    inject._until_it_stands(process.pid)
    assert inject.hang(process.pid)["fired"] is True
    assert is_alive(process.pid)


def test_a_save_finds_no_room_without_being_root(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    target = tmp_path / "big"
    process = start(started, WRITES, str(target))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    proof, _ = inject.fill_disk(tmp_path, [process.pid])
    assert proof["fired"] is True
    process.communicate("go\n")
    assert process.returncode > 0
    assert target.stat().st_size <= inject.LARGEST_FILE


def test_the_newest_checkpoint_is_damaged_in_one_byte(tmp_path: Path) -> None:
    assert inject.corrupt(tmp_path)["fired"] is False
    for step in (5, 10, 15):
        folder = tmp_path / f"step-{step:06d}"
        folder.mkdir()
        (folder / "big").write_bytes(bytes(100))
        (folder / "small").write_bytes(bytes(10))
        if step != 15:  # the newest is not committed
            (folder / "COMMIT.json").write_text("{}")
    assert inject.corrupt(tmp_path) == {
        "checkpoint": "step-000010", "file": "big", "fired": True
    }  # fmt: skip
    assert (tmp_path / "step-000010" / "big").read_bytes().count(0) == 99
    assert (tmp_path / "step-000005" / "big").read_bytes().count(0) == 100
