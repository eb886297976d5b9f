"""What reading a shell script yields: assignments, exports, commands, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certify.recipes.importers.values import Origin, Value, Word


@dataclass(frozen=True)
class Assignment:
    """name = value; certain is False inside a branch or loop whose turn is unknown."""

    name: str
    value: str
    origin: Origin
    exported: bool
    certain: bool


@dataclass(frozen=True)
class Command:
    """A command with its words, assignments before it (``A=1 cmd``) and what it pipes into.

    guarded: its failure is looked at (``||``, ``if``); pipefail: ``set -o pipefail`` is on.
    """

    words: tuple[Word, ...]
    origin: Origin
    env: dict[str, str] = field(default_factory=dict)
    pipes_into: tuple[str, ...] = ()
    pipefail: bool = False
    redirects: tuple[str, ...] = ()


@dataclass
class ShellScript:
    """What a script says, in the order in which it says it."""

    file: str
    text: str
    assignments: list[Assignment] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    uses: dict[str, Origin] = field(default_factory=dict)
    unassigned: dict[str, Origin] = field(default_factory=dict)
    missing_sources: list[Word] = field(default_factory=list)
    broken: list[Origin] = field(default_factory=list)
    placeholders: list[Origin] = field(default_factory=list)
    crlf: bool = False
    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)

    def env(self) -> dict[str, Assignment]:
        """The last assignment of every exported variable."""
        return {a.name: a for a in self.assignments if a.name in self.exported}
