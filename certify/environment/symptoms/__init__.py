"""Finds the signals that error texts are."""

from __future__ import annotations

import re
from bisect import bisect_right

from certify.environment.symptoms.patterns import PATTERNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

# Occurrences of one anchor that are looked at: the first ones and the last ones, since a log
# ends with what broke the run.
_FIRST, _LAST = 40, 20
_WIDTH = 600


class Lines:
    """Lines of a text by position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts: list[int] | None = None

    def number(self, position: int) -> int:
        """The line (from 1) that holds `position`."""
        if self._starts is None:
            starts, at = [0], self.text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self.text.find("\n", at + 1)
            self._starts = starts
        return bisect_right(self._starts, position)

    def around(self, position: int) -> tuple[int, int]:
        """Start and end of the line at `position`, at most `_WIDTH` characters either way."""
        low = max(0, position - _WIDTH)
        start = self.text.rfind("\n", low, position) + 1 or low
        end = self.text.find("\n", position, position + _WIDTH)
        return start, end if end >= 0 else min(len(self.text), position + _WIDTH)


def _occurrences(low: str, anchor: str) -> list[int]:
    """Positions of the anchor, one a line: the first and the last ones."""
    first: list[int] = []
    at = low.find(anchor)
    while at >= 0 and len(first) < _FIRST:
        first.append(at)
        end = low.find("\n", at)
        at = low.find(anchor, end) if end >= 0 else -1
    last: list[int] = []
    if at >= 0:
        back = low.rfind(anchor)
        while back > first[-1] and len(last) < _LAST:
            last.append(back)
            start = low.rfind("\n", 0, back)
            back = low.rfind(anchor, 0, start) if start > 0 else -1
    return first + last[::-1]


def find_symptoms(text: str, source: str, out: StackBuilder) -> None:
    """Record every signal that the patterns find in `text`; sources are ``source:line``."""
    # The one letter whose lower-case form is longer would shift every position after it.
    text = text.replace("\u0130", "I")
    low = text.lower()
    lines = Lines(text)
    for pattern in PATTERNS:
        spans = {
            lines.around(at)
            for anchor in pattern.anchors
            if anchor in low
            for at in _occurrences(low, anchor)
        }
        for start, end in sorted(spans):
            line = text[start:end]
            match = re.search(pattern.expression, line)
            if match is None:
                continue
            data = {k.rstrip("23"): v.rstrip(".,;") for k, v in match.groupdict().items() if v}
            signal = pattern.signal
            if pattern.classify is not None:
                signal = pattern.classify(data, line)
            if signal is not None:
                where = f"{source}:{lines.number(start + match.start())}"
                out.signal(signal, line, where, **data)
