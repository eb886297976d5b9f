"""A sidecar that ends stuck ranks: ``python -m runner.heartbeat RUN_DIR LIMIT_S START_S``.

A rank that is stopped, or waits for ever, keeps its peers in a collective until that times out,
and the agent of torchrun notices nothing. This process watches the stamps of all ranks
(`certify.records.stamps`). When one has not moved for LIMIT_S, it kills the rank that holds the
others up; the agent then starts all of them again. It also notes ranks that are gone. START_S is
the limit for a process that has not begun a step. Needs nothing but the standard library, so
that nothing of training can stop it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from certify.records import MARKS, Header, Stamp, Writer, rank_file, read_stamps
from runner import watchdog
from runner.watchdog import is_gone

if TYPE_CHECKING:
    from collections.abc import Iterable

POLL_S = 0.2


@dataclass
class _Seen:
    """The last new stamp of a rank. since_s: when it was seen; is_reported: nothing more is
    expected of that process."""

    stamp: Stamp
    since_s: float
    is_reported: bool = False


def stuck(seen: Iterable[tuple[Stamp, float, str]], limit_s: float, start_s: float) -> Stamp | None:
    """Which rank to end, None while all move. seen: (stamp, seconds without a new one, state of
    the process as in /proc).

    A stopped process goes first; else the one that is least far, which the others wait for.
    """
    late = [
        (stamp, age_s, state)
        for stamp, age_s, state in seen
        if age_s > (start_s if stamp.mark == "start" else limit_s)
    ]
    order = sorted(late, key=lambda item: (item[2] not in "Tt", *_progress(item[0]), -item[1]))
    return order[0][0] if order else None


def _progress(stamp: Stamp) -> tuple[int, int]:
    return stamp.step, MARKS.index(stamp.mark) if stamp.mark in MARKS else 0


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    return text.rpartition(")")[2].split()[0]


class Heartbeat:
    """Watches one run. `look` is one look at all stamps."""

    def __init__(self, run_dir: Path, limit_s: float, start_s: float) -> None:
        self.run_dir, self.limit_s, self.start_s = run_dir, limit_s, start_s
        self._seen: dict[int, _Seen] = {}
        header = Header(run_dir.name, "heartbeat", "", 0, 1, os.getpid(), time.time())
        self._writer = Writer(rank_file(run_dir, 0, "heartbeat"), header)

    def look(self, now_s: float) -> None:
        """Note what moved, report ranks that are gone, end one that is stuck."""
        for rank, stamp in read_stamps(self.run_dir).items():
            if rank not in self._seen or self._seen[rank].stamp != stamp:
                self._seen[rank] = _Seen(stamp, now_s)
        watched = [seen for seen in self._seen.values() if not seen.is_reported]
        for seen in watched:
            if is_gone(seen.stamp.pid, None):
                seen.is_reported = True
                if seen.stamp.mark != "end":
                    self._report("rank_gone", seen.stamp)
        alive = [
            (seen.stamp, now_s - seen.since_s, _state(seen.stamp.pid))
            for seen in watched
            if not seen.is_reported and seen.stamp.mark != "end"
        ]
        late = stuck(alive, self.limit_s, self.start_s)
        if late is not None:
            self._seen[late.rank].is_reported = True
            with suppress(ProcessLookupError):
                os.kill(late.pid, signal.SIGKILL)
            age_s = now_s - self._seen[late.rank].since_s
            self._report("rank_stuck", late, age_s=round(age_s, 3))

    def _report(self, name: str, stamp: Stamp, **detail: float) -> None:
        self._writer.event(
            name, stamp.step, rank=stamp.rank, pid=stamp.pid, mark=stamp.mark, **detail
        )


def main(words: list[str]) -> int:
    """Watch until the process that started this one is gone or ends it."""
    if len(words) != 3:
        print("usage: python -m runner.heartbeat RUN_DIR LIMIT_S START_S", file=sys.stderr)
        return 2
    watchdog.start()
    heartbeat = Heartbeat(Path(words[0]), float(words[1]), float(words[2]))
    while True:
        heartbeat.look(time.monotonic())
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
