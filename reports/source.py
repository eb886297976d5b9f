"""Reads a campaign folder for its page: documents, records, and what is missing of either."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from certify import records
from certify.errors import CertifyError, UsageError
from certify.records import End, RecordFile
from reports import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")
# Phases that leave no records of their own.
WITHOUT_RECORDS = frozenset(("prepare", "judge", "report"))
DOCUMENTS = ("campaign.json", "plan.json", "recipe.json", "verdict.json")


@dataclass(frozen=True)
class RunRecords:
    """The records of one run. problem: why they cannot be read, else empty; controls: name of a
    negative control -> its rank files."""

    phase: str
    run_id: str
    files: tuple[RecordFile, ...] = ()
    controls: Mapping[str, tuple[RecordFile, ...]] = field(default_factory=dict)
    problem: str = ""

    @property
    def first(self) -> RecordFile | None:
        """The file of the lowest rank."""
        return self.files[0] if self.files else None

    @property
    def finished(self) -> bool:
        """Whether every rank wrote that it completed."""
        ends = [file.last(End) for file in self.files]
        return bool(ends) and all(end is not None and end.status == "completed" for end in ends)

    @property
    def truncated(self) -> bool:
        """Whether a killed writer cut a line off."""
        return any(file.truncated for file in self.files)


@dataclass(frozen=True)
class Source:
    """Everything a campaign's page is made of. missing: sentences for people."""

    folder: Path
    campaign: documents.CampaignDocument
    plan: documents.PlanDocument | None
    recipe: documents.RecipeDocument | None
    verdict: documents.VerdictDocument | None
    runs: Mapping[str, RunRecords]
    missing: tuple[str, ...]

    def run(self, phase: str) -> RunRecords | None:
        """The records of a phase, None when there are none."""
        found = self.runs.get(phase)
        return found if found and found.files else None

    def record_files(self) -> list[Path]:
        """Every record file, relative to the campaign folder."""
        files = [
            file
            for run in self.runs.values()
            for group in (run.files, *run.controls.values())
            for file in group
        ]
        return [file.path.relative_to(self.folder) for file in files]


def _document(folder: Path, name: str) -> tuple[dict[str, Any] | None, str]:
    """The parsed document, and why there is none."""
    try:
        body = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, f"{name} was not written"
    except OSError as error:
        return None, f"{name} cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        return None, f"{name} is not JSON"
    return (body, "") if isinstance(body, dict) else (None, f"{name} is not a JSON object")


def _folder_name(run_id: str) -> bool:
    """Whether a run id names a folder within ``runs``: it comes from a file anyone may edit."""
    return bool(run_id) and run_id not in (".", "..") and not re.search(r"[/\\\0]", run_id)


def _read_run(folder: Path, phase: str, run_id: str) -> RunRecords:
    if not _folder_name(run_id):
        return RunRecords(phase, run_id, problem="the run id is not the name of a folder")
    run = folder / "runs" / run_id
    try:
        files = tuple(records.read_run(run))
        controls = {
            stream.removeprefix("control-"): tuple(records.read_run(run, stream))
            for stream in records.control_streams(run)
        }
    except CertifyError as error:
        return RunRecords(phase, run_id, problem=f"{error.what} ({_place(folder, error.where)})")
    return RunRecords(phase, run_id, files, controls)


def _place(folder: Path, where: str | None) -> str:
    """A place without the path of this machine."""
    return (where or "").replace(f"{folder}/", "")


def _gap(run: RunRecords) -> str:
    """What is missing of a run, one sentence; empty when it is whole."""
    if run.problem:
        return f"the records of {run.phase} cannot be read: {run.problem}"
    if not run.files:
        return f"the run {run.phase} left no records"
    absent = set(range(run.files[0].header.world_size)) - {f.header.rank for f in run.files}
    if absent:
        return (
            f"the run {run.phase} lacks the records of rank {', '.join(map(str, sorted(absent)))}"
        )
    if run.truncated:
        last = max(run.files[0].steps(), default=0)
        return f"the records of {run.phase} are cut off after step {last}: the writer was killed"
    if not run.finished:
        last = max(run.files[0].steps(), default=0)
        return f"the run {run.phase} did not finish: its last recorded step is {last}"
    return ""


def read_source(folder: Path) -> Source:
    """Read a campaign folder.

    Raises UsageError when it holds neither a campaign nor a plan.
    """
    bodies, missing = {}, []
    for name in DOCUMENTS:
        bodies[name], gap = _document(folder, name)
        if gap:
            missing.append(gap)
    if bodies["campaign.json"] is None and bodies["plan.json"] is None:
        raise UsageError(
            "no campaign in this folder",
            where=str(folder),
            expected="campaign.json, as certify run --out DIR writes it",
            hint="certify report build DIR, with the folder that certify run named",
        )
    plan = _parsed(bodies["plan.json"], documents.plan_document)
    campaign = documents.campaign_document(_campaign_body(bodies))
    ids = {p.name: p.run_id for p in campaign.phases if p.name not in WITHOUT_RECORDS}
    ids = {**(plan.runs if plan else {}), **ids}
    runs = {phase: _read_run(folder, phase, run_id) for phase, run_id in ids.items()}
    missing += filter(None, map(_gap, runs.values()))
    return Source(
        folder=folder,
        campaign=campaign,
        plan=plan,
        recipe=_parsed(bodies["recipe.json"], documents.recipe_document),
        verdict=_parsed(bodies["verdict.json"], documents.verdict_document),
        runs=runs,
        missing=tuple(missing),
    )


def _parsed(body: dict[str, Any] | None, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
    return None if body is None else parse(body)


def _campaign_body(bodies: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """campaign.json; without it, what plan and verdict know of the campaign."""
    if (found := bodies["campaign.json"]) is not None:
        return found
    plan = bodies["plan.json"] or {}
    return {**plan, "id": plan.get("campaign_id"), "status": "unknown"}
