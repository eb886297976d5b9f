"""The record file of this rank, opened before anything can fail and closed with an End record."""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import (
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    CertifyError,
    InfrastructureError,
)
from certify.records import End, Header, Writer, rank_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.runspec import RunSpec


class Journal:
    """Where a rank writes. writer: the main record file; steps: steps trained so far."""

    def __init__(self, spec: RunSpec, rank: int, world_size: int) -> None:
        self.spec = spec
        self.rank = rank
        self.world_size = world_size
        self.steps = 0
        self.writer = self.stream("rank")

    def stream(self, name: str) -> Writer:
        """A further record file of this rank. name: ``control-NAME``."""
        header = Header(
            run_id=self.spec.run_id,
            role=self.spec.role,
            backend=self.spec.backend,
            rank=self.rank,
            world_size=self.world_size,
            pid=os.getpid(),
            start_unix_s=time.time(),
            attempt=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        )
        return Writer(rank_file(Path(self.spec.run_dir), self.rank, name), header)


@contextmanager
def journal(spec: RunSpec) -> Iterator[Journal]:
    """The journal of this process (RANK and WORLD_SIZE, 0 and 1 without a launcher).

    Writes End: completed, failed with the reason, or stopped (interrupted). Exceptions pass on;
    a full disk becomes an InfrastructureError.
    """
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    book = Journal(spec, rank, world_size)
    start_s = time.monotonic()

    def end(status: str, reason: str = "", exit_code: int = EXIT_PASS) -> None:
        times = os.times()
        wall_s, cpu_s = time.monotonic() - start_s, times.user + times.system
        book.writer.write(End(status, book.steps, wall_s, cpu_s, reason, exit_code))
        book.writer.close()

    try:
        yield book
    except CertifyError as error:
        end("failed", error.what, error.exit_code)
        raise
    except KeyboardInterrupt:
        end("stopped", "interrupted", EXIT_INTERRUPTED)
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            end("failed", f"{type(error).__name__}: {error}", EXIT_INTERNAL)
            raise
        # There may be no room for the End record either.
        raise InfrastructureError(
            "the disk is full", where=spec.run_dir, hint="free space, then run the phase again"
        ) from error
    except Exception as error:
        end("failed", f"{type(error).__name__}: {error}", EXIT_INTERNAL)
        raise
    end("completed")
