"""What every part of the store rests on: transactions, rows by id, and the status of a campaign."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from certify.errors import InfrastructureError, UsageError
from certify.store.models import CampaignRow, RunRow
from certify.store.process import Process, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from certify.store.database import Database
    from certify.store.rows import CampaignStatus

# A process on another host or in another container cannot be looked at from here: its campaign
# counts as interrupted when nothing was written for this long (`heartbeat` writes).
SILENT_AFTER_S = 15 * 60.0
OPEN = ("reserved", "running")


class Base:
    """A database with an up-to-date schema. Any thread may use it."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self.database = database
        self._clock = clock

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def _row(self, session: Session, campaign_id: str, lock: bool = False) -> CampaignRow:
        row = session.get(CampaignRow, campaign_id, with_for_update=lock)
        if row is None:
            raise UsageError(
                f"no campaign {campaign_id!r} in the store",
                where=self.database.where,
                hint="certify store info --json lists the campaigns",
            )
        return row

    def _open_campaign(self, session: Session, campaign_id: str, *also: str) -> CampaignRow:
        """A campaign that has not ended, or ended as `also` says."""
        row = self._row(session, campaign_id, lock=True)
        if row.status not in (*OPEN, *also):
            raise InfrastructureError(
                f"campaign {campaign_id!r} is {row.status}", expected="a campaign that runs"
            )
        return row

    def _run_row(self, session: Session, run_id: str, expected: tuple[str, ...]) -> RunRow:
        row = session.get(RunRow, run_id, with_for_update=True)
        if row is None:
            raise UsageError(f"no run {run_id!r} in the store", where=self.database.where)
        if row.status not in expected:
            raise InfrastructureError(
                f"run {run_id!r} is {row.status}", expected=f"a run that is {' or '.join(expected)}"
            )
        return row

    def _status(self, row: CampaignRow) -> CampaignStatus:
        if row.status not in OPEN:
            return row.status
        alive = is_alive(Process(row.host, row.pid, row.process_start))
        silent = self._clock() - row.updated_unix_s > SILENT_AFTER_S
        return "interrupted" if alive is False or (alive is None and silent) else row.status


def number(value: object) -> float | None:
    """A number as the database keeps it: NaN becomes None, as SQLite would make it NULL."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return None
    return float(value)
