"""What the store takes and returns: frozen dataclasses, no ORM objects. Standard library only.

Times are Unix seconds, durations seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

CampaignStatus = Literal["reserved", "running", "interrupted", "completed", "failed"]
RunStatus = Literal["reserved", "running", "completed", "failed", "aborted"]


class RunToReserve(NamedTuple):
    """role: candidate | reference | compare | certify (a phase within our own process)."""

    run_id: str
    phase: str
    role: str


@dataclass(frozen=True)
class NewCampaign:
    """What is known of a campaign before anything of it is launched.

    key: digest of everything that decides whether an interrupted campaign may be continued by a
    new call (recipe, backend, scale, data, software, options); unlike the plan it holds no ids.
    folder: absolute path of the campaign folder. plan_sha256: None until the plan is written.
    inject: the fault that is injected on purpose; such a campaign never counts for a status.
    """

    id: str
    recipe_id: str
    backend: str
    scale: str
    device: str
    stage: str
    criteria_version: str
    criteria_sha256: str
    key: str
    folder: str
    plan_sha256: str | None = None
    inject: str | None = None


@dataclass(frozen=True)
class Campaign:
    """One campaign as stored. status: ``interrupted`` also where the row still says running but
    the process that ran it is gone. verdict: PASS | FAIL | INCONCLUSIVE once completed.
    host: a hash, never a name. pid: the process that runs or ran it."""

    id: str
    recipe_id: str
    backend: str
    scale: str
    device: str
    stage: str
    criteria_version: str
    criteria_sha256: str
    key: str
    folder: str
    plan_sha256: str | None
    inject: str | None
    status: CampaignStatus
    verdict: str | None
    reason: str
    created_unix_s: float
    updated_unix_s: float
    host: str
    pid: int
    certify_version: str


@dataclass(frozen=True)
class Run:
    """One launched (or reserved) process group. exit_code: negative for a signal, as in
    `subprocess`. attempt: 1 for the first run of a phase in its campaign."""

    id: str
    campaign_id: str
    phase: str
    role: str
    attempt: int
    status: RunStatus
    reserved_unix_s: float
    started_unix_s: float | None
    ended_unix_s: float | None
    pid: int | None
    steps: int | None
    wall_s: float | None
    cpu_s: float | None
    exit_code: int | None
    reason: str


@dataclass(frozen=True)
class Gate:
    """One line of a verdict. The numbers are None where the gate has no such number."""

    campaign_id: str
    gate: str
    verdict: str
    required: bool
    statistic: float | None
    low: float | None
    high: float | None
    margin: float | None
    n: int | None
    reason: str


@dataclass(frozen=True)
class Reference:
    """A cached reference trajectory. digest: of config, data, weights and environment.
    aa_sd: standard deviation of the reference against itself, None until it was measured."""

    digest: str
    folder: str
    created_unix_s: float
    aa_sd: float | None
