"""What the store knows of a campaign, for its page. A page also comes out without a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from certify.errors import CertifyError

if TYPE_CHECKING:
    from pathlib import Path

    from certify.store.rows import Campaign, Run


def stored_runs(folder: Path, home: str | Path | None = None) -> list[Run]:
    """The runs of the campaign in a folder, aborted ones included; none without a usable store.

    Neither creates a store nor changes one.
    """
    try:
        campaign_id = json.loads((folder / "campaign.json").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    try:
        return _runs(str(campaign_id), home)
    except CertifyError:
        return []


def stored_campaign(campaign_id: str, home: str | Path | None = None) -> Campaign:
    """A campaign by its id. Raises UsageError when the store has none, and as `open_store`."""
    from certify.store import open_store

    with open_store(home=home) as store:
        return store.get_campaign(campaign_id)


def _runs(campaign_id: str, home: str | Path | None) -> list[Run]:
    from certify.home import database_location
    from certify.store import require_store

    require_store()
    from certify.store.campaigns import Store
    from certify.store.database import Database
    from certify.store.migrate import HEAD, current_revision

    database = Database(database_location(home))
    try:
        if database.path is not None and not database.path.exists():
            return []
        if database.read(lambda session: current_revision(session.connection())) != HEAD:
            return []
        return Store(database).runs(campaign_id)
    finally:
        database.close()
