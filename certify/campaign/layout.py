"""Where everything of a campaign lies, so that no other module spells a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The folder of one campaign."""

    root: Path

    @property
    def state(self) -> Path:
        """What happened so far (`certify.campaign.state`)."""
        return self.root / "campaign.json"

    @property
    def plan(self) -> Path:
        """What was fixed before launch (`certify.campaign.plan`)."""
        return self.root / "plan.json"

    @property
    def recipe(self) -> Path:
        """The scaled recipe with the table of changes."""
        return self.root / "recipe.json"

    @property
    def prepared(self) -> Path:
        """Data, tokenizer and initial weights."""
        return self.root / "prepared"

    @property
    def verdict(self) -> Path:
        """The judge's document."""
        return self.root / "verdict.json"

    @property
    def environment(self) -> Path:
        """The stack of the host (`certify.lock`)."""
        return self.root / "environment.json"

    @property
    def bundle(self) -> Path:
        """Everything that others need to check the verdict (`certify.evidence`)."""
        return self.root / "evidence.tar"

    @property
    def page(self) -> Path:
        """The static page."""
        return self.root / "page"

    def run(self, run_id: str) -> Path:
        """The folder of one run."""
        return self.root / "runs" / run_id

    def log(self, run_id: str) -> Path:
        """What the run's launcher and ranks printed."""
        return self.run(run_id) / "logs" / "output.log"

    def checkpoint(self, run_id: str, step: int) -> Path:
        """A committed checkpoint (`runner.checkpoint` names it so)."""
        return self.run(run_id) / "checkpoints" / f"step-{step:06d}"
