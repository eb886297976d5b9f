"""Bringing a database to the schema of this version of certify, with Alembic, from code.

The migrations are data of this package (``migrations/``): no alembic.ini, no working folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from certify.errors import InfrastructureError
from certify.store.models import Base

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

    from certify.store.database import Database

# The newest revision in migrations/versions (a test compares): known here, so that opening a
# store that is up to date needs no import of Alembic.
HEAD = "0001"
VERSION_TABLE = "certify_schema"
MIGRATIONS = Path(__file__).with_name("migrations")
# Any constant will do: it names the lock under which one process at a time migrates a server.
ADVISORY_LOCK = 0x63657274


def current_revision(connection: Connection) -> str | None:
    """The schema revision of a database, None when it has none of our tables.

    Raises InfrastructureError when tables of these names exist that certify did not make.
    """
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE in tables:
        found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        return None if found is None else str(found)
    if foreign := sorted(tables & set(Base.metadata.tables)):
        raise InfrastructureError(
            f"the database has a table {foreign[0]!r} that certify did not make",
            expected=f"an empty database or one with the table {VERSION_TABLE!r}",
            hint="name another database in CERTIFY_DATABASE",
        )
    return None


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, built in memory."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def known_revisions() -> list[str]:
    """All revisions of this version of certify, oldest first."""
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(alembic_config())
    return [revision.revision for revision in script.walk_revisions()][::-1]


def upgrade(database: Database) -> tuple[str | None, str]:
    """Bring the schema up to date; returns the revisions before and after.

    Safe to call from several processes at once, and to kill: a migration is one transaction.
    Raises InfrastructureError for a newer schema and as `certify.store.failures`.
    """
    database.create_folder()
    before = database.read(lambda session: current_revision(session.connection()))
    if before != HEAD:
        before = database.connected(lambda connection: _upgrade(connection, database.where))
    return before, HEAD


def _upgrade(connection: Connection, where: str) -> str | None:
    from alembic import command

    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
    # Asked again under the lock: another process may have migrated meanwhile.
    before = current_revision(connection)
    if before is not None and before not in known_revisions():
        raise InfrastructureError(
            f"the database was written by a newer certify (schema {before})",
            where=where,
            expected=f"schema {HEAD} or older",
            hint="pip install --upgrade ascend-certify",
        )
    if before != HEAD:
        command.upgrade(alembic_config(connection), "head")
    return before
