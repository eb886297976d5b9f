"""How long a campaign takes and how much disk it needs, said before it starts.

First guesses stand in the scale file; what this host measured last replaces them.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from certify.campaign.files import write_json
from certify.errors import InfrastructureError
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from certify.campaign.state import CampaignState

TIMINGS = "timings.json"


def _key(scale: str, device: str) -> str:
    return f"{scale}/{device}"


def _measured(home: Path, scale: str, device: str) -> dict[str, float]:
    try:
        body = load_json((home / TIMINGS).read_text(encoding="utf-8"))
        return {name: float(value) for name, value in body[_key(scale, device)].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def phase_seconds(
    home: Path, scale: Mapping[str, Any], device: str, phases: Iterable[str]
) -> dict[str, float]:
    """phase -> estimated wall seconds."""
    measured = _measured(home, scale["name"], device)
    return {name: measured.get(name, float(scale["estimate_s"].get(name, 0))) for name in phases}


def remember(home: Path, state: CampaignState) -> None:
    """Keep what the phases of a finished campaign took, for the next estimate.

    A phase that shares its wave is kept as the share that it added to the wave.
    """
    path = home / TIMINGS
    try:
        body = load_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        body = {}
    if not isinstance(body, dict):
        body = {}
    known = body.setdefault(_key(state.scale, state.device), {})
    for phase in state.phases:
        if phase.status == "completed" and not phase.cached:
            known[phase.name] = round(phase.wall_s, 1)
    if "reference" in known and "reference-again" in known:
        longer = max(known["reference"], known["reference-again"])
        known["reference"], known["reference-again"] = longer, 0.0
    write_json(path, body)


def disk_mb(scale: Mapping[str, Any], phases: Iterable[str]) -> int:
    """Megabytes that a campaign writes."""
    reference = scale["estimate_mb"]["reference"] if "reference" in set(phases) else 0
    return int(scale["estimate_mb"]["campaign"] + reference)


def check_disk(folder: Path, needed_mb: int) -> int:
    """Free megabytes at a folder. Raises InfrastructureError when they are too few."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    free = shutil.disk_usage(there).free // 1_000_000
    if free < needed_mb:
        raise InfrastructureError(
            f"{free} MB are free",
            where=str(there),
            expected=f"at least {needed_mb} MB for this campaign",
            hint="free disk space or choose another folder with --out DIR",
        )
    return int(free)
