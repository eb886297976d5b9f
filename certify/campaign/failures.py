"""From a process that ended badly to one message: the first failing rank and what it said."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from certify.errors import EXIT_INFRASTRUCTURE, EXIT_USAGE, InfrastructureError, UsageError
from certify.records import End, read_run

if TYPE_CHECKING:
    from pathlib import Path

    from certify.campaign.layout import Layout
    from certify.campaign.processes import Outcome
    from certify.errors import CertifyError

TAIL_LINES = 12
TAIL_BYTES = 64_000
_ERROR = re.compile(r"^error: (?P<what>.+)$", re.MULTILINE)
_FIELD = "^  {name}: (.+)$"
_HINT = re.compile(r"^hint: (?P<hint>.+)$", re.MULTILINE)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _said_at_end(folder: Path) -> str:
    """The reason in the first rank's End record that has one."""
    try:
        ends = [(f.header.rank, f.last(End)) for f in read_run(folder)]
    except UsageError:
        return ""
    return next((f"rank {rank}: {end.reason}" for rank, end in ends if end and end.reason), "")


def failed_phase(outcome: Outcome, layout: Layout, run_id: str) -> CertifyError:
    """One error for a phase that ended with a code other than 0.

    A message in our own form in the log is taken over with its hint; else the reason a rank
    recorded, else the exception at the end of the log, is quoted.
    """
    log = layout.log(run_id)
    text = _tail(log)
    found = _ERROR.search(text)
    where = re.search(_FIELD.format(name="where"), text, re.MULTILINE)
    hint = _HINT.search(text)
    if found:
        what = f"{outcome.name}: {found['what']}"
    else:
        what = f"{outcome.name} {_how(outcome.exit_code)}{_last_words(layout.run(run_id), text)}"
    kind = UsageError if outcome.exit_code == EXIT_USAGE else InfrastructureError
    expected = re.search(_FIELD.format(name="expected"), text, re.MULTILINE)
    return kind(
        what,
        where=where[1] if where else str(log),
        expected=expected[1] if expected else None,
        hint=hint["hint"] if hint else f"read {log}; the same command continues the campaign",
    )


def _how(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return "could not do its work" if code == EXIT_INFRASTRUCTURE else f"ended with code {code}"


def _last_words(folder: Path, text: str) -> str:
    if reason := _said_at_end(folder):
        return f": {reason}"
    raised = [
        line for line in text.splitlines() if re.match(r"^(\[rank\d+\]: )?[A-Za-z_.]+Error: ", line)
    ]
    return f": {raised[0]}" if raised else ""
