"""What a person sees while phases run: one living line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from certify.json_text import load_json

if TYPE_CHECKING:
    from pathlib import Path

PLAIN_EVERY_S = 15.0
LIVE_EVERY_S = 0.25


@dataclass
class StepTail:
    """Follows one record file as it grows and remembers its last step."""

    path: Path
    step: int = 0
    loss: float | None = None
    _offset: int = 0

    def poll(self) -> None:
        """Read what was appended since the last call; an incomplete last line waits."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return
        whole, newline, _ = text.rpartition(b"\n")
        if not newline:
            return
        self._offset += len(whole) + 1
        for line in whole.splitlines():
            if b'"kind": "step"' not in line[:40]:
                continue
            try:
                body = load_json(line)
                self.step, self.loss = int(body["step"]), float(body["loss"])
            except (ValueError, KeyError, TypeError):
                continue  # the reader that judges will say what is wrong with it


def duration(seconds: float) -> str:
    """``95`` -> ``1m35s``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{secs:02d}s" if minutes else f"{secs}s"


class Progress:
    """Talks on stderr. quiet: says nothing but errors."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._live = (
            not quiet
            and hasattr(self._stream, "isatty")
            and self._stream.isatty()
            and os.environ.get("TERM") != "dumb"
        )
        self._shown = 0.0
        self._open_line = False

    def say(self, text: str = "") -> None:
        """One line that stays."""
        if self._quiet:
            return
        self._clear()
        print(text, file=self._stream, flush=True)

    def update(self, text: str) -> None:
        """The line that changes: at most four times a second on a terminal, else every 15 s."""
        if self._quiet:
            return
        now = time.monotonic()
        if now - self._shown < (LIVE_EVERY_S if self._live else PLAIN_EVERY_S):
            return
        self._shown = now
        if not self._live:
            print(text, file=self._stream, flush=True)
            return
        self._clear()
        self._stream.write(text[: max(20, _columns() - 1)])
        self._stream.flush()
        self._open_line = True

    def begin(self) -> None:
        """A new phase: the first update of the living line may come at once, a plain one waits."""
        self._shown = 0.0 if self._live else time.monotonic()

    def _clear(self) -> None:
        if self._open_line:
            self._stream.write("\r\x1b[K")
            self._open_line = False


def _columns() -> int:
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    # A terminal of unknown width says 0.
    said = os.environ.get("COLUMNS", "")
    return columns or (int(said) if said.isdigit() and int(said) > 0 else 80)


def phase_line(
    name: str, tails: list[StepTail], first: int, last: int, began: float, left_after_s: float
) -> str:
    """``candidate  step 120/200  loss 4.321  phase 0m12s left, 1m05s in all``.

    first, last: the steps this phase trains; left_after_s: estimate for the phases that follow.
    """
    elapsed = time.monotonic() - began
    parts = [f"  {name:<16}"]
    tail = min(tails, key=lambda t: t.step) if tails else None
    if tail is None or tail.loss is None:
        parts.append(f"{duration(elapsed)}")
    else:
        parts.append(f"step {tail.step}/{last}  loss {tail.loss:.4f}")
        done, total = tail.step - first + 1, last - first + 1
        if done > 0:
            left = elapsed / done * (total - done)
            parts.append(f"{duration(left)} left, {duration(left + left_after_s)} in all")
    return "  ".join(parts)
