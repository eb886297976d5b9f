"""Logs as they may leave the house: only lines of known forms, without paths, names and secrets.

A log is free text and may hold anything that a library prints: what is not on the list is counted
and left out, instead of looking for what must not be seen.
"""

from __future__ import annotations

import os
import re

from certify.environment.redact import identities

# Kept from each end of a longer log, bytes of the result.
MOST_BYTES = 256 << 10
_RANK = r"(?:\[(?:default\d+|rank\d+|[\w.-]*\d+)\]:?\s*)?"
_KEPT = re.compile(
    rf"^{_RANK}(?:"
    r"Traceback \(most recent call last\):"
    r"|\s*File \"[^\"]+\", line \d+, in [\w<>.]+"
    r"|(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit)\b.*"
    r"|\s*(?:error|hint|where|expected|note|warning):.*"
    r"|.*\bexitcode\s*: ?-?\d+.*"
    r"|.*\bSignal \d+ \(SIG[A-Z]+\).*"
    r"|\s*(?:step|iteration)\s+\d+\b.*"
    r")$"
)
_PATH = re.compile(r"(?<![\w.])(?:/[^\s/:\"',()<>]+)+/")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\x1b\[[0-9;]*m")


def redacted_log(data: bytes) -> bytes:
    """The lines of a log that may be shown, cut to `MOST_BYTES`; what is missing is counted."""
    names = tuple({os.uname().nodename, os.uname().nodename.split(".")[0]})
    kept: list[str] = []
    left_out = 0
    for line in data.decode("utf-8", "replace").splitlines():
        plain = _CONTROL.sub("", line)
        if not plain.strip():
            continue
        if not _KEPT.match(plain):
            left_out += 1
            continue
        if left_out:
            kept.append(_left_out(left_out))
            left_out = 0
        kept.append(_PATH.sub("", identities(plain, names)))
    if left_out:
        kept.append(_left_out(left_out))
    text = ("\n".join(kept) + "\n").encode() if kept else b""
    return text if len(text) <= MOST_BYTES else _ends(text)


def _left_out(count: int) -> str:
    return f"[{count} line{'s' if count > 1 else ''} left out]"


def _ends(text: bytes) -> bytes:
    """First and last lines: where it began, and how it ended."""
    half = MOST_BYTES // 2
    first, last = text[:half].rpartition(b"\n")[0], text[-half:].partition(b"\n")[2]
    middle = f"\n[{len(text) - len(first) - len(last)} bytes left out]\n"
    return first + middle.encode() + last
