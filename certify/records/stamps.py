"""Progress stamps: where each rank of a run is just now, for processes outside of it.

A rank overwrites one small file at every mark (``data``, ``forward``, ``backward``,
``optimizer``, ``save``); the file outlives the rank, so it also says where a killed one was.
Standard library only: the heartbeat and the injector read what a training process writes.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MARKS = ("start", "data", "forward", "backward", "optimizer", "save", "end")
_LENGTH = 256


@dataclass(frozen=True)
class Stamp:
    """mark: what the rank does; step: the step it does it for; count: marks so far in this
    process, so that two stamps of one process never look alike."""

    rank: int
    pid: int
    mark: str
    step: int
    count: int


def stamp_file(run_dir: Path, rank: int) -> Path:
    """Where a rank stamps."""
    return run_dir / "progress" / f"rank-{rank:05d}.json"


class Stamper:
    """Writes the stamps of one rank, each in one system call and at one length."""

    def __init__(self, run_dir: Path, rank: int) -> None:
        path = stamp_file(run_dir, rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        self._rank, self._count = rank, 0
        self.at("start", 0)

    def at(self, mark: str, step: int) -> None:
        """Say that this rank now does `mark` for `step`."""
        self._count += 1
        stamp = Stamp(self._rank, os.getpid(), mark, step, self._count)
        os.pwrite(self._handle, json.dumps(asdict(stamp)).encode().ljust(_LENGTH), 0)


class NoStamps:
    """Stands for a `Stamper` where nobody watches."""

    def at(self, mark: str, step: int) -> None:
        """Nothing."""


def read_stamps(run_dir: Path) -> dict[int, Stamp]:
    """rank -> its last stamp. A stamp that is being written is left out."""
    found = {}
    for path in sorted((run_dir / "progress").glob("rank-*.json")):
        try:
            stamp = Stamp(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            continue
        found[stamp.rank] = stamp
    return found
