"""What lint reports: a rule that was broken, where, and what was found there."""

from __future__ import annotations

from dataclasses import dataclass

from certify.recipes.lint.rules import RULES

SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class Finding:
    """One finding. file and line (from 1) say where; recipe is the id, if there is one.

    recorded: found when the script was read at its commit, not in the file at hand.
    """

    rule: str
    found: str
    file: str
    line: int
    recipe: str | None = None
    recorded: bool = False

    @property
    def severity(self) -> str:
        """error, warning or info: of the rule."""
        return RULES[self.rule].severity

    @property
    def title(self) -> str:
        """What the rule says, one line."""
        return RULES[self.rule].title

    def as_json(self) -> dict[str, str | int | bool | None]:
        return {
            "rule": self.rule,
            "severity": self.severity,
            "title": self.title,
            "found": self.found,
            "file": self.file,
            "line": self.line,
            "recipe": self.recipe,
            "recorded": self.recorded,
        }


def at_least(severity: str) -> frozenset[str]:
    """The severities that are as severe as ``severity`` or more."""
    return frozenset(SEVERITIES[: SEVERITIES.index(severity) + 1])
