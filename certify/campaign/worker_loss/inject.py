"""Doing harm to a run from outside, and proving that it was done.

A rank is stopped before anything is done to it, and looked at: only when its stamp says that it
is where the schedule wants it does the injection happen, else it runs on. All a training process
knows of this is its progress stamp.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from certify.campaign.processes import is_alive, process_state
from certify.records import read_stamps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from certify.campaign.worker_loss.schedule import Injection
    from certify.records import Stamp

LOOK_S = 0.001
# Of a file; a save writes more, a line of a record is far smaller.
LARGEST_FILE = 64


def caught(
    run_dir: Path, injection: Injection, first_step: int, keep_on: Callable[[], bool]
) -> Stamp | None:
    """Stop the rank where the schedule wants it; None when `keep_on` said to give up.

    first_step: the first step that the run trained after its last start.
    """
    wanted = (injection.mark, injection.rank)
    while keep_on():
        stamp = read_stamps(run_dir).get(injection.rank)
        if stamp is None or stamp.step < first_step + injection.gap or stamp.mark != wanted[0]:
            time.sleep(LOOK_S)
            continue
        with suppress(ProcessLookupError):
            os.kill(stamp.pid, signal.SIGSTOP)
            _until_it_stands(stamp.pid)
            again = read_stamps(run_dir).get(injection.rank)
            if again is not None and again.pid == stamp.pid and again.mark == wanted[0]:
                return again
            os.kill(stamp.pid, signal.SIGCONT)
        time.sleep(LOOK_S)
    return None


def _until_it_stands(pid: int) -> None:
    _wait(lambda: process_state(pid) in "TtZX?", 5.0)


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


def kill(pid: int) -> dict[str, Any]:
    """SIGKILL; the proof is that the process is gone."""
    os.kill(pid, signal.SIGKILL)
    gone = _wait(lambda: not is_alive(pid), 10.0)
    return {"signal": "SIGKILL", "fired": gone}


def hang(pid: int) -> dict[str, Any]:
    """Leave a process stopped; the proof is its state."""
    state = process_state(pid)
    return {"signal": "SIGSTOP", "state": state, "fired": state in "Tt"}


def fill_disk(folder: Path, pids: list[int]) -> tuple[dict[str, Any], Callable[[], None]]:
    """Let a save find no room. (proof, what frees the room again).

    Where the folder is a small file system of its own it is filled to the last byte; else the
    kernel is told to let these processes write no longer files (prlimit), which needs no root.
    """
    if os.path.ismount(folder):
        filler = folder / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * (1 << 16))
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        proof = {"means": "full file system", "free_bytes": free, "fired": free < 1 << 16}
        return proof, lambda: filler.unlink(missing_ok=True)
    limits = []
    for pid in pids:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (LARGEST_FILE, hard))
        limits.append(resource.prlimit(pid, resource.RLIMIT_FSIZE)[0])
    fired = bool(limits) and set(limits) == {LARGEST_FILE}
    return {"means": "prlimit RLIMIT_FSIZE", "bytes": LARGEST_FILE, "fired": fired}, lambda: None


def corrupt(checkpoints: Path) -> dict[str, Any]:
    """Flip the bits of one byte in the middle of the largest file of the newest checkpoint."""
    folders = sorted(f for f in checkpoints.glob("step-*") if (f / "COMMIT.json").is_file())
    if not folders:
        return {"fired": False, "why": "there is no checkpoint yet"}
    file = max((f for f in folders[-1].rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        before = opened.read(1)
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([before[0] ^ 0xFF]))
        opened.flush()
        os.fsync(opened.fileno())
        opened.seek(-1, os.SEEK_CUR)
        after = opened.read(1)
    return {"checkpoint": folders[-1].name, "file": file.name, "fired": after != before}
