"""What happened in a campaign so far: ``campaign.json``, rewritten whole after every change."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from certify.campaign.files import read_json, write_atomic
from certify.runspec import from_json

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.campaign/1"


@dataclass(frozen=True)
class PhaseState:
    """One phase. status: pending | running | completed | failed | interrupted.

    run_id: its run, None for a phase without one; attempt: from 1; cached: taken from an earlier
    campaign instead of run; wall_s, cpu_s: of the last attempt, CPU seconds over all processes.
    """

    name: str
    status: str = "pending"
    run_id: str | None = None
    attempt: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    cached: bool = False
    reason: str = ""


@dataclass(frozen=True)
class CampaignState:
    """status: running | interrupted | failed | completed; command: what reproduces it;
    key: digest of everything that was asked for, by which an interrupted one is found again."""

    id: str
    recipe_id: str
    backend: str
    scale: str
    device: str
    stage: str
    status: str
    key: str
    created_unix_s: float
    command: tuple[str, ...]
    phases: tuple[PhaseState, ...]
    inject: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    schema: str = SCHEMA

    def phase(self, name: str) -> PhaseState:
        """The state of one phase. Raises KeyError when the campaign does not have it."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)

    def with_phase(self, name: str, **changes: Any) -> CampaignState:
        """A copy in which one phase differs."""
        phases = tuple(
            dataclasses.replace(phase, **changes) if phase.name == name else phase
            for phase in self.phases
        )
        return dataclasses.replace(self, phases=phases)


def write_state(state: CampaignState, path: Path) -> None:
    """Write ``campaign.json`` atomically."""
    write_atomic(path, json.dumps(dataclasses.asdict(state), indent=1, ensure_ascii=False) + "\n")


def read_state(path: Path) -> CampaignState:
    """Read ``campaign.json``. Raises UsageError naming the file and key at fault."""
    return from_json(CampaignState, read_json(path, "the campaign"), str(path))
