"""From a process that ended badly to one message: the first failing rank and what it said."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from certify.errors import (
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    InfrastructureError,
    UsageError,
)
from certify.records import End, read_run

if TYPE_CHECKING:
    from pathlib import Path

    from certify.campaign.layout import Layout
    from certify.campaign.processes import Outcome
    from certify.errors import CertifyError

TAIL_BYTES = 64_000
_ERROR = re.compile(r"^error: (?P<what>.+)$", re.MULTILINE)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _ends(folder: Path) -> dict[int, End | None]:
    """rank -> its End record, None for a rank that ended without one (it was killed)."""
    try:
        return {file.header.rank: file.last(End) for file in read_run(folder)}
    except UsageError:
        return {}


def _first_cause(ends: dict[int, End | None]) -> tuple[int, End | None] | None:
    """The rank to blame: one that named its error, else one that was killed, else one that
    crashed. The others usually only lost their peer."""
    failed = {rank: end for rank, end in ends.items() if end is None or end.exit_code}
    order = sorted(failed.items(), key=lambda item: _blame(item[1]))
    return order[0] if order else None


def _blame(end: End | None) -> int:
    if end is None:
        return 1
    return 2 if end.exit_code in (EXIT_INTERNAL, EXIT_INTERRUPTED) else 0


def failed_phase(outcome: Outcome, layout: Layout, run_id: str) -> CertifyError:
    """One error for a phase that ended with a code other than 0.

    A message in our own form in the log is taken over with its hint; else the reason that the
    first failing rank recorded, else the exception in the log, is quoted.
    """
    log = layout.log(run_id)
    text = _tail(log)
    ends = _ends(layout.run(run_id))
    cause = _first_cause(ends)
    named = _ERROR.search(text)
    if named:
        what = f"{outcome.name}: {named['what']}"
    else:
        what = f"{outcome.name} {_how(outcome.exit_code)}{_last_words(cause, text)}"
    code = cause[1].exit_code if cause and cause[1] else outcome.exit_code
    kind = UsageError if code == EXIT_USAGE else InfrastructureError
    hint = _field(text, r"^hint: (.+)$") if named else None
    return kind(
        what,
        where=(_field(text, r"^  where: (.+)$") if named else None) or str(log),
        expected=_field(text, r"^  expected: (.+)$") if named else None,
        hint=hint or f"read {log}; the same command (without --fresh) continues the campaign",
    )


def _field(text: str, pattern: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else None


def _how(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with code {code}"


def _last_words(cause: tuple[int, End | None] | None, text: str) -> str:
    if cause is not None:
        rank, end = cause
        if end is None:
            return f": rank {rank} ended without a word, as when it is killed or out of memory"
        return f": rank {rank}: {end.reason}"
    raised = re.search(r"^(?:\[rank\d+\]: )?[A-Za-z_.]+Error: .*$", text, re.MULTILINE)
    return f": {raised[0]}" if raised else ""
