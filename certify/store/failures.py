"""Database failures in our own words: what happened, to which database, and one thing to do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import exc

from certify.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What the driver says (lower case) -> what we say, and the hint. First match wins.
_MEANINGS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("database is locked", "database table is locked", "lock timeout"),
        "the database is locked by another process",
        "wait for the other certify to finish and call again",
    ),
    (
        ("readonly database", "read-only"),
        "the database is read-only",
        "make the file and its folder writable, or name another with --home or CERTIFY_HOME",
    ),
    (
        ("file is not a database", "malformed", "file is encrypted"),
        "the database file is corrupt or not a database",
        "move the file away and call again: campaign folders are untouched and stay readable",
    ),
    (
        ("database or disk is full", "no space left", "disk full"),
        "the disk that holds the database is full",
        "free some space and call again: nothing was half-written",
    ),
    (
        ("unable to open database file",),
        "the database file cannot be opened or created",
        "check that the folder may be written, or name another with --home or CERTIFY_HOME",
    ),
    (
        ("disk i/o error",),
        "the disk that holds the database failed",
        "look at the disk and its mount, then call again",
    ),
    (
        ("password authentication failed", "no password supplied", "permission denied"),
        "the database refused access",
        "check user and password in CERTIFY_DATABASE",
    ),
    (
        (
            "connection refused",
            "could not connect",
            "connection failed",
            "connection to server",
            "could not translate host name",
            "server closed the connection",
            "timeout expired",
        ),
        "the database server cannot be reached",
        "check that the server runs and that CERTIFY_DATABASE names it",
    ),
)


def is_contention(error: BaseException) -> bool:
    """Whether the same transaction may succeed when it is tried again."""
    text = str(getattr(error, "orig", error)).lower()
    return isinstance(error, exc.OperationalError) and any(
        words in text
        for words in ("database is locked", "table is locked", "deadlock", "could not serialize")
    )


def _said(error: BaseException) -> str:
    """What the driver said, on one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _known(error: BaseException, where: str) -> InfrastructureError | None:
    said = _said(error)
    for words, what, hint in _MEANINGS:
        if any(word in said.lower() for word in words):
            return InfrastructureError(f"{what} ({said})", where=where, hint=hint)
    return None


def explain(error: BaseException, where: str) -> InfrastructureError:
    """The error to raise for a driver's error. where: the database, without its password."""
    return _known(error, where) or InfrastructureError(
        f"the database failed: {_said(error)}", where=where, hint="certify store info"
    )


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn failures of the database into InfrastructureError.

    Errors that only a defect of ours can cause (a violated constraint, a malformed statement)
    pass through.
    """
    try:
        yield
    except (exc.IntegrityError, exc.DataError):
        raise
    except exc.ProgrammingError as error:
        # Drivers report a refused access as one of these, too.
        if known := _known(error, where):
            raise known from error
        raise
    except (exc.DBAPIError, exc.TimeoutError) as error:
        raise explain(error, where) from error
