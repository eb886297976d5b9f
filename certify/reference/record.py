"""Makes a recorded trajectory of the reference of a campaign."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from certify.campaign.files import read_json
from certify.campaign.layout import Layout
from certify.campaign.state import read_state
from certify.criteria.plan import read_plan
from certify.errors import UsageError
from certify.records import End, Environment, rank_file, read_file
from certify.reference import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from certify.records import RecordFile

# Of the plan: what the reference's inputs were. Run ids and the candidate's resume are not.
_PLANNED = ("recipe_id", "scale", "stage", "device", "precision", "moe", "criteria", "sides")


def record(campaign: Path, folder: Path) -> recorded.Recorded:
    """Write the reference of a finished campaign to a folder.

    Raises UsageError for a campaign without a reference that completed, or with a seeded fault.
    """
    layout = Layout(campaign)
    state = read_state(layout.state)
    planned = read_plan(layout.plan)
    if planned.inject is not None and planned.inject.side == "reference":
        raise UsageError(
            f"the reference was trained with the fault {planned.inject.name}", where=str(campaign)
        )
    path = _records_of(layout, state)
    file = read_file(path)
    end = file.last(End)
    if end is None or end.status != "completed":
        raise UsageError("the reference did not complete", where=str(path))
    body = read_json(layout.plan, "the plan")
    plan = {key: body[key] for key in _PLANNED} | {
        "schema": body["schema"],
        "campaign_id": folder.name,
        "runs": {"reference": f"{folder.name}-reference"},
        "expected": body["expected"],
    }
    sides = plan["sides"]
    facts = {
        "kind": "run",
        "recipe": planned.recipe_id,
        "backend": sides["candidate"]["backend"],
        "reference": sides["reference"]["backend"],
        "scale": planned.scale,
        "steps": len(file.steps()),
        "command": f"certify reference verify {folder.name}",
    }
    files = {
        recorded.PLAN: json.dumps(plan, separators=(",", ":")) + "\n",
        recorded.ENVIRONMENT: json.dumps(_environment(file), indent=1, sort_keys=True) + "\n",
        recorded.RECORDS: path.read_text(encoding="utf-8"),
    }
    return recorded.write(folder, facts, files)


def _records_of(layout: Layout, state: Any) -> Path:
    try:
        run_id = state.phase("reference").run_id
    except (KeyError, StopIteration):
        run_id = None
    path = rank_file(layout.run(run_id or "reference"), 0)
    if not path.is_file():
        raise UsageError(
            "the campaign has no records of a reference",
            where=str(layout.root),
            hint="certify run RECIPE --phases reference",
        )
    return path


def _environment(file: RecordFile) -> dict[str, Any]:
    found = next(iter(file.of(Environment)), None)
    if found is None:
        raise UsageError("the reference recorded no environment", where=str(file.path))
    return {
        "python": found.python,
        "packages": dict(found.packages),
        "device": found.device,
        "device_name": found.device_name,
        "effective": dict(found.effective),
    }
