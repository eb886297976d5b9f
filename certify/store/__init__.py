"""The database of results: campaigns, their runs and gates, and the cache of references.

Importing this package costs nothing and needs nothing; SQLAlchemy is imported when a store is
opened, and a missing one is reported as a usage error that says what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.store.rows import (
    Campaign,
    CampaignStatus,
    Gate,
    NewCampaign,
    Reference,
    Run,
    RunStatus,
    RunToReserve,
)

if TYPE_CHECKING:
    from pathlib import Path

    from certify.store.campaigns import Store

__all__ = [
    "Campaign",
    "CampaignStatus",
    "Gate",
    "NewCampaign",
    "Reference",
    "Run",
    "RunStatus",
    "RunToReserve",
    "open_store",
    "require_store",
]


def require_store() -> None:
    """Raises UsageError when the libraries of the extra ``store`` are not installed."""
    from importlib.util import find_spec

    from certify.errors import UsageError

    for name in ("sqlalchemy", "alembic"):
        if find_spec(name) is None:
            raise UsageError(
                f"the store needs {name}, which is not installed",
                expected="the extra 'store'",
                hint='pip install "ascend-certify[store]"',
            )


def open_store(url: str | Path | None = None, home: str | Path | None = None) -> Store:
    """Open the store, creating it and bringing its schema up to date where needed.

    url: a database URL or the path of an SQLite file; without it ``$CERTIFY_DATABASE``, else the
    SQLite file in the home folder (`certify.home`). Close it, or use it as a context manager.

    Raises UsageError for a missing library or a malformed URL, and InfrastructureError for a
    database that is unreachable, locked, read-only, corrupt, or written by a newer certify.
    """
    require_store()
    from certify.home import database_location
    from certify.store.campaigns import Store
    from certify.store.database import Database
    from certify.store.migrate import upgrade

    database = Database(url if url is not None else database_location(home))
    try:
        upgrade(database)
    except BaseException:
        database.close()
        raise
    return Store(database)
