"""Runs in the store: reserved before launch, started, ended; an ended run never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from certify.errors import UsageError
from certify.store.base import OPEN, Base
from certify.store.models import RunRow
from certify.store.rows import Run, RunToReserve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.orm import Session

    from certify.store.rows import RunStatus


class Runs(Base):
    """The methods of the store that concern runs."""

    def reserve_runs(self, campaign_id: str, runs: Iterable[tuple[str, str, str]]) -> list[Run]:
        """Reserve runs (`RunToReserve`: run id, phase, role) before any of them is launched."""
        wanted, now = [RunToReserve(*run) for run in runs], self._clock()

        def work(session: Session) -> list[Run]:
            campaign = self._open_campaign(session, campaign_id)
            reserved = []
            for run in wanted:
                if session.get(RunRow, run.run_id) is not None:
                    raise UsageError(f"run {run.run_id!r} exists already")
                earlier = sum(row.phase == run.phase for row in campaign.runs)
                row = RunRow(
                    id=run.run_id,
                    position=len(campaign.runs),
                    phase=run.phase,
                    role=run.role,
                    attempt=earlier + 1,
                    status="reserved",
                    reserved_unix_s=now,
                    reason="",
                    campaign_id=campaign.id,
                )
                campaign.runs.append(row)
                session.flush()
                reserved.append(_run(row))
            campaign.updated_unix_s = now
            return reserved

        return self.database.write(work)

    def start_run(self, run_id: str, pid: int) -> Run:
        """A reserved run was launched as this process; its campaign is now running.

        A completed campaign stays so: its page is written after the verdict.
        """

        def work(session: Session) -> Run:
            row = self._run_row(session, run_id, ("reserved",))
            campaign = self._open_campaign(session, row.campaign_id, "completed")
            row.status, row.pid, row.started_unix_s = "running", pid, self._clock()
            campaign.updated_unix_s = row.started_unix_s
            if campaign.status == "reserved":
                campaign.status = "running"
            return _run(row)

        return self.database.write(work)

    def finish_run(
        self,
        run_id: str,
        status: RunStatus,
        *,
        steps: int | None = None,
        wall_s: float | None = None,
        cpu_s: float | None = None,
        exit_code: int | None = None,
        reason: str = "",
    ) -> Run:
        """A run ended as completed, failed or aborted; it cannot change after that."""
        if status in OPEN:
            raise ValueError(f"a run does not end as {status!r}")

        def work(session: Session) -> Run:
            row = self._run_row(session, run_id, OPEN)
            row.status, row.ended_unix_s = status, self._clock()
            row.steps, row.wall_s, row.cpu_s = steps, wall_s, cpu_s
            row.exit_code, row.reason = exit_code, reason
            row.campaign.updated_unix_s = row.ended_unix_s
            return _run(row)

        return self.database.write(work)

    def runs(self, campaign_id: str) -> list[Run]:
        """All runs of a campaign in the order of their reservation, aborted ones included."""
        query = select(RunRow).where(RunRow.campaign_id == campaign_id).order_by(RunRow.position)
        return self.database.read(lambda s: [_run(row) for row in s.scalars(query)])


def _run(row: RunRow) -> Run:
    return Run(**{name: getattr(row, name) for name in Run.__dataclass_fields__})
