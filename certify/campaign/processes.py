"""Start groups of processes, follow them, and end them with all their descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TERM_GRACE_S = 5.0
POLL_S = 0.1


@dataclass(frozen=True)
class Job:
    """One process to start. threads and environment come with it; output goes to ``log``."""

    name: str
    command: tuple[str, ...]
    cwd: Path
    log: Path
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a job ended. exit_code: negative is a signal; cpu_s: with all waited-for children."""

    name: str
    exit_code: int
    wall_s: float
    cpu_s: float


@dataclass
class _Started:
    job: Job
    process: subprocess.Popen[bytes]
    began: float
    outcome: Outcome | None = None


def _start(job: Job) -> _Started:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.cwd.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as output:
        try:
            process = subprocess.Popen(
                job.command,
                cwd=job.cwd,
                env={**os.environ, **job.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A session of its own: a Ctrl-C in the terminal reaches us first, and we end the
                # children in order instead of all dying at once.
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError(
                f"cannot start {job.name}: {error.strerror}", where=" ".join(job.command)
            ) from None
    return _Started(job, process, time.monotonic())


def _reap(started: _Started) -> None:
    """Fill ``outcome`` once the process has ended; wait4 also tells its CPU seconds."""
    if started.outcome is not None:
        return
    pid, status, usage = os.wait4(started.process.pid, os.WNOHANG)
    if pid == 0:
        return
    code = os.waitstatus_to_exitcode(status)
    started.process.returncode = code
    started.outcome = Outcome(
        started.job.name,
        code,
        time.monotonic() - started.began,
        usage.ru_utime + usage.ru_stime,
    )


def _parents() -> dict[int, int]:
    """pid -> parent pid of every process visible in /proc; empty where there is no /proc."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The command name in parentheses may hold spaces: count fields after it.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
    return parents


def descendants(pid: int) -> list[int]:
    """All live descendants of a process, nearest first."""
    parents = _parents()
    found, frontier = [], {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found += sorted(frontier)
    return found


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def process_state(pid: int) -> str:
    """The state letter of a process as in /proc (R, S, T stopped, Z ...), ``?`` when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    return text.rpartition(")")[2].split()[0]


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return process_state(pid) not in "ZX?"


def _end(group: Sequence[_Started]) -> None:
    """SIGTERM, a grace period, SIGKILL: for every job still running and all its descendants."""
    running = [s for s in group if s.outcome is None]
    # Collected before the first signal: a dead parent hands its children to init.
    pids = [pid for s in running for pid in (s.process.pid, *descendants(s.process.pid))]
    _signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + TERM_GRACE_S
    while time.monotonic() < deadline and any(map(is_alive, pids)):
        for s in running:
            with suppress(ChildProcessError):
                _reap(s)
        time.sleep(POLL_S)
    for s in running:
        with suppress(ChildProcessError):
            _reap(s)
    pids += [pid for s in running if s.outcome is None for pid in descendants(s.process.pid)]
    _signal(pids, signal.SIGKILL)
    for s in running:
        if s.outcome is None:
            s.process.wait()
            s.outcome = Outcome(s.job.name, -signal.SIGKILL, time.monotonic() - s.began, 0.0)


def run_group(
    jobs: Sequence[Job],
    tick: Callable[[], None],
    started_one: Callable[[Job, int], None] = lambda job, pid: None,
) -> list[Outcome]:
    """Run jobs side by side until all have ended, or one failed (then the others are ended too).

    tick is called about every `POLL_S` seconds; started_one gets each job and its pid. Returns the
    outcomes in the order of jobs. On KeyboardInterrupt, and on any error, every process of the
    group and its descendants is ended before the exception goes on: none is left behind.
    """
    group: list[_Started] = []
    try:
        for job in jobs:
            group.append(_start(job))
            started_one(job, group[-1].process.pid)
        while any(s.outcome is None for s in group):
            for s in group:
                _reap(s)
            if any(s.outcome is not None and s.outcome.exit_code != 0 for s in group):
                break
            tick()
            time.sleep(POLL_S)
    finally:
        if any(s.outcome is None for s in group):
            _end(group)
    tick()
    return [s.outcome for s in group if s.outcome is not None]
