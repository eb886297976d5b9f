"""One database: how it is reached, how SQLite is set up, and how a transaction is run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import URL, Engine, create_engine, event, exc, make_url
from sqlalchemy.orm import Session

from certify.errors import InfrastructureError, UsageError
from certify.store.failures import explained, is_contention
from certify.store.filesystem import filesystem_of, is_network

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

T = TypeVar("T")
BUSY_TIMEOUT_S = 30.0
ATTEMPTS = 5
RETRY_PAUSE_S = 0.05
# One word in a URL chooses the driver that we test with.
_DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}


def parse_location(location: str | Path) -> URL:
    """A URL from a URL or the path of an SQLite file. Raises UsageError for a malformed one."""
    if isinstance(location, Path) or "://" not in location:
        return URL.create("sqlite", database=str(Path(location).absolute()))
    try:
        url = make_url(location)
    except (exc.ArgumentError, ValueError) as error:
        raise UsageError(
            "the database URL is malformed",
            where="CERTIFY_DATABASE",
            expected="postgresql://USER:PASSWORD@HOST:PORT/NAME or the path of an SQLite file",
            hint="unset CERTIFY_DATABASE to use the SQLite file in the home folder",
        ) from error
    return url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))


class Database:
    """An engine with our settings. Nothing is opened or created before the first transaction."""

    def __init__(self, location: str | Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.url = parse_location(location)
        self.path = self._sqlite_path()
        self.filesystem = filesystem_of(self.path) if self.path else ""
        self.busy_timeout_s = busy_timeout_s
        self.engine = self._create_engine()

    @property
    def where(self) -> str:
        """How messages name this database: the file, or the URL without its password."""
        return str(self.path) if self.path else self.url.render_as_string(hide_password=True)

    @property
    def on_network(self) -> bool:
        """Whether an SQLite file lies on a file system that hosts share."""
        return is_network(self.filesystem)

    def _sqlite_path(self) -> Path | None:
        if self.url.get_backend_name() != "sqlite" or self.url.database in (None, "", ":memory:"):
            return None
        # SQLite's own URI form (file:/path?mode=ro) names a file like any other.
        return Path(str(self.url.database).removeprefix("file:")).absolute()

    def _create_engine(self) -> Engine:
        sqlite = self.url.get_backend_name() == "sqlite"
        # No implicit BEGIN of the driver: `_begin` says which kind of transaction is meant.
        arguments: dict[str, Any] = (
            {"timeout": self.busy_timeout_s, "isolation_level": None} if sqlite else {}
        )
        try:
            engine = create_engine(self.url, connect_args=arguments, pool_pre_ping=not sqlite)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"the database driver {error.name} is not installed",
                where=self.url.drivername,
                hint='pip install "psycopg[binary]"',
            ) from None
        except exc.NoSuchModuleError:
            raise UsageError(
                f"unknown kind of database {self.url.drivername!r}",
                where="CERTIFY_DATABASE",
                expected="postgresql:// or the path of an SQLite file",
            ) from None
        if sqlite:
            event.listen(engine, "connect", self._set_up_sqlite)
            event.listen(engine, "begin", _begin)
        return engine

    def _set_up_sqlite(self, connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        # A committed transaction survives a power cut: it may be the only trace of a run.
        cursor.execute("PRAGMA synchronous=FULL")
        wanted = "delete" if self.on_network else "wal"
        # Changing the mode needs the file to itself, so ask first; the mode is kept in the file.
        if cursor.execute("PRAGMA journal_mode").fetchone()[0] not in (wanted, "memory"):
            cursor.execute(f"PRAGMA journal_mode={wanted}")
        cursor.close()

    def create_folder(self) -> None:
        """Make the folder of an SQLite file. Raises InfrastructureError."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InfrastructureError(
                f"cannot make the folder of the database: {error.strerror}",
                where=str(self.path.parent),
                hint="name another with --home or CERTIFY_HOME",
            ) from None

    def read(self, work: Callable[[Session], T]) -> T:
        """Run `work` on one consistent state of the database."""
        return self._transaction(self.engine, work)

    def write(self, work: Callable[[Session], T]) -> T:
        """Run `work` in a transaction that holds the write lock from its start; all or nothing.

        `work` is run again when the database was busy, so it must depend on the session alone.
        """
        return self._transaction(self.engine.execution_options(certify_write=True), work)

    def connected(self, work: Callable[[Connection], T]) -> T:
        """As `write`, with a connection in place of a session (for migrations)."""
        return self.write(lambda session: work(session.connection()))

    def _transaction(self, engine: Engine, work: Callable[[Session], T]) -> T:
        with explained(self.where):
            for attempt in range(ATTEMPTS):
                try:
                    with Session(engine, expire_on_commit=False) as session, session.begin():
                        return work(session)
                except exc.OperationalError as error:
                    if attempt == ATTEMPTS - 1 or not is_contention(error):
                        raise
                    time.sleep(RETRY_PAUSE_S * 2**attempt)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _begin(connection: Connection) -> None:
    # A deferred transaction that reads and then writes can fail at the write, when another
    # process wrote in between; taking the write lock first makes it wait instead.
    writes = connection.get_execution_options().get("certify_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
