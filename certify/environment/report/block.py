"""What every report format is: a test for its first line, and a reader of the lines from there."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from certify.environment.builder import StackBuilder


@dataclass
class Block:
    """The lines of a report from the place where a format began.

    lines: all lines of the report; start: index of the first one of this block; end: index after
    the last one taken so far; name: of the report, for sources.
    """

    lines: list[str]
    start: int
    end: int
    name: str

    def take_while(self, belongs: Callable[[str], bool], limit: int = 2000) -> list[str]:
        """The lines from `start` on that belong, at most `limit`; `end` is moved behind them."""
        at = self.start
        stop = min(len(self.lines), self.start + limit)
        while at < stop and belongs(self.lines[at]):
            at += 1
        self.end = max(at, self.start + 1)
        return self.lines[self.start : at]

    def source(self, offset: int = 0) -> str:
        """Where a line of the block stands, e.g. ``report:12``."""
        return f"{self.name}:{self.start + offset + 1}"


@dataclass(frozen=True)
class Format:
    """starts: cheap test of a line; read: takes lines from the block into the builder and
    returns (state, note), or None when the lines are of another kind after all."""

    starts: Callable[[str], bool]
    read: Callable[[Block, StackBuilder], tuple[str, str] | None]
