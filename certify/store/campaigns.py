"""The store: what certify writes down about campaigns, before, while and after they run.

Every method is one transaction. The order of life is `create_campaign`, `reserve_runs`, then per
run `start_run` and `finish_run`, and at the end `finish_campaign`; a campaign whose process is
gone shows as ``interrupted``, and `resume_campaign` hands it to exactly one new process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from certify import __version__
from certify.errors import InfrastructureError, UsageError
from certify.store.base import OPEN, number
from certify.store.models import CampaignRow, GateRow, ReferenceRow, RunRow
from certify.store.process import identify
from certify.store.references import References
from certify.store.rows import Campaign, Gate
from certify.store.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from sqlalchemy.orm import Session

    from certify.store.rows import CampaignStatus, NewCampaign


class Store(Runs, References):
    """The store, opened by `certify.store.open_store`. Any thread may use it.

    Methods raise UsageError for an unknown id, InfrastructureError when the database fails or
    when another process has meanwhile moved what is to be changed.
    """

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def create_campaign(self, new: NewCampaign) -> Campaign:
        """Reserve a campaign for the calling process. Raises UsageError when the id is taken."""
        process, now = identify(), self._clock()

        def work(session: Session) -> Campaign:
            if session.get(CampaignRow, new.id) is not None:
                raise UsageError(f"campaign {new.id!r} exists already", where=self.database.where)
            row = CampaignRow(
                **vars(new),
                status="reserved",
                verdict=None,
                reason="",
                created_unix_s=now,
                updated_unix_s=now,
                host=process.host,
                pid=process.pid,
                process_start=process.start,
                certify_version=__version__,
            )
            session.add(row)
            return self._campaign(row)

        return self.database.write(work)

    def set_plan(self, campaign_id: str, plan_sha256: str) -> None:
        """Record the digest of the plan, once, before anything it plans is launched."""

        def work(session: Session) -> None:
            row = self._open_campaign(session, campaign_id)
            if row.plan_sha256 not in (None, plan_sha256):
                raise InfrastructureError(
                    f"campaign {campaign_id!r} has another plan",
                    expected=row.plan_sha256,
                    hint="a plan cannot change after it was written: start a new campaign",
                )
            row.plan_sha256 = plan_sha256
            row.updated_unix_s = self._clock()

        self.database.write(work)

    def heartbeat(self, campaign_id: str) -> None:
        """Say that the campaign still runs, for hosts that cannot see its process."""

        def work(session: Session) -> None:
            self._open_campaign(session, campaign_id).updated_unix_s = self._clock()

        self.database.write(work)

    def finish_campaign(self, campaign_id: str, verdict: Mapping[str, Any]) -> Campaign:
        """Record the verdict document (``verdict.json``) and complete the campaign."""

        def work(session: Session) -> Campaign:
            row = self._open_campaign(session, campaign_id)
            row.status, row.verdict = "completed", str(verdict["verdict"])
            row.reason = str(verdict.get("reason") or "")
            row.updated_unix_s = self._clock()
            row.gates = [
                _gate_row(position, gate) for position, gate in enumerate(verdict["gates"])
            ]
            return self._campaign(row)

        return self.database.write(work)

    def close_campaign(self, campaign_id: str) -> Campaign:
        """Complete a campaign whose phases did not include the judge: it has no verdict."""
        return self.database.write(lambda s: self._end(s, campaign_id, "completed", ""))

    def fail_campaign(self, campaign_id: str, reason: str) -> Campaign:
        """End a campaign that could not reach a verdict; its running runs become ``aborted``."""
        return self.database.write(lambda s: self._end(s, campaign_id, "failed", reason))

    def mark_interrupted(self, campaign_id: str, reason: str = "interrupted") -> Campaign:
        """End a campaign that was stopped; its running runs become ``aborted``.

        Runs that were reserved and never launched stay reserved, also in `fail_campaign`.
        """
        return self.database.write(lambda s: self._end(s, campaign_id, "interrupted", reason))

    def resume_campaign(self, campaign_id: str) -> Campaign:
        """Take over an interrupted or failed campaign for the calling process.

        Of several callers exactly one succeeds, the others get InfrastructureError.
        """
        process = identify()

        def work(session: Session) -> Campaign:
            row = self._row(session, campaign_id, lock=True)
            if self._status(row) not in ("interrupted", "failed"):
                raise InfrastructureError(
                    f"campaign {campaign_id!r} is {self._status(row)}, not interrupted",
                    where=f"process {row.pid}",
                    hint="wait for it to end, or start a campaign of its own with --out",
                )
            self._abort_running(row, "the process that ran the campaign is gone")
            row.status, row.reason, row.updated_unix_s = "running", "", self._clock()
            row.host, row.pid, row.process_start = process.host, process.pid, process.start
            return self._campaign(row)

        return self.database.write(work)

    def get_campaign(self, campaign_id: str) -> Campaign:
        """One campaign. Raises UsageError when there is none of this id."""
        return self.database.read(lambda s: self._campaign(self._row(s, campaign_id)))

    def find_interrupted(self, key: str) -> list[Campaign]:
        """The campaigns with this key (`NewCampaign.key`) that were interrupted or failed on the
        way and can be continued, newest first."""
        query = (
            select(CampaignRow)
            .where(CampaignRow.key == key)
            .where(CampaignRow.status.in_((*OPEN, "interrupted", "failed")))
            .order_by(CampaignRow.created_unix_s.desc(), CampaignRow.id)
        )

        def work(session: Session) -> list[Campaign]:
            found = [self._campaign(row) for row in session.scalars(query)]
            return [c for c in found if c.status in ("interrupted", "failed")]

        return self.database.read(work)

    def campaigns(
        self,
        recipe_id: str | None = None,
        status: CampaignStatus | None = None,
        limit: int | None = None,
    ) -> list[Campaign]:
        """Campaigns, newest first."""
        query = select(CampaignRow).order_by(CampaignRow.created_unix_s.desc(), CampaignRow.id)
        if recipe_id is not None:
            query = query.where(CampaignRow.recipe_id == recipe_id)

        def work(session: Session) -> list[Campaign]:
            found: list[Campaign] = []
            # Whether a campaign is interrupted is not in its row alone: filter what was read.
            for row in session.scalars(query):
                if limit is not None and len(found) >= limit:
                    break
                campaign = self._campaign(row)
                if status in (None, campaign.status):
                    found.append(campaign)
            return found

        return self.database.read(work)

    def gates(self, campaign_id: str) -> list[Gate]:
        """The gates of a campaign's verdict, in its order; none before it is completed."""
        query = select(GateRow).where(GateRow.campaign_id == campaign_id).order_by(GateRow.position)
        return self.database.read(lambda s: [_gate(row) for row in s.scalars(query)])

    def counts(self) -> dict[str, int]:
        """Number of rows per table, and of campaigns per status (``campaigns.running``...)."""

        def work(session: Session) -> dict[str, int]:
            found = {
                model.__tablename__: session.scalar(select(func.count()).select_from(model)) or 0
                for model in (CampaignRow, RunRow, GateRow, ReferenceRow)
            }
            ended = (
                select(CampaignRow.status, func.count())
                .where(CampaignRow.status.not_in(OPEN))
                .group_by(CampaignRow.status)
            )
            for status, number_of in session.execute(ended).all():
                found[f"campaigns.{status}"] = number_of
            for row in session.scalars(select(CampaignRow).where(CampaignRow.status.in_(OPEN))):
                name = f"campaigns.{self._status(row)}"
                found[name] = found.get(name, 0) + 1
            return found

        return self.database.read(work)

    def _end(
        self, session: Session, campaign_id: str, status: CampaignStatus, reason: str
    ) -> Campaign:
        row = self._row(session, campaign_id, lock=True)
        if row.status in ("completed", "failed"):
            raise InfrastructureError(
                f"campaign {campaign_id!r} is {row.status}", expected="a campaign that runs"
            )
        self._abort_running(row, reason)
        row.status, row.reason, row.updated_unix_s = status, reason, self._clock()
        return self._campaign(row)

    def _abort_running(self, campaign: CampaignRow, reason: str) -> None:
        for run in campaign.runs:
            if run.status == "running":
                run.status, run.reason, run.ended_unix_s = "aborted", reason, self._clock()

    def _campaign(self, row: CampaignRow) -> Campaign:
        values = {name: getattr(row, name) for name in Campaign.__dataclass_fields__}
        return Campaign(**{**values, "status": self._status(row)})


def _gate(row: GateRow) -> Gate:
    return Gate(**{name: getattr(row, name) for name in Gate.__dataclass_fields__})


def _gate_row(position: int, gate: Mapping[str, Any]) -> GateRow:
    count = gate.get("n")
    return GateRow(
        gate=str(gate["gate"]),
        position=position,
        verdict=str(gate["verdict"]),
        required=bool(gate.get("required", True)),
        statistic=number(gate.get("statistic")),
        low=number(gate.get("low")),
        high=number(gate.get("high")),
        margin=number(gate.get("margin")),
        n=count if isinstance(count, int) and not isinstance(count, bool) else None,
        reason=str(gate.get("reason") or ""),
    )
