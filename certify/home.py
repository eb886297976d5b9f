"""Where certify keeps its state between calls. Standard library only.

The home folder is ``--home``, else ``$CERTIFY_HOME``, else the platform's folder for user data.
The store is ``$CERTIFY_DATABASE`` (a database URL, or the path of an SQLite file), else
``certify.sqlite`` in the home folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

APPLICATION = "ascend-certify"
DATABASE_FILE = "certify.sqlite"


def _platform_data_folder(environ: Mapping[str, str], platform: str) -> Path:
    """The folder in which applications keep a user's data. Raises RuntimeError without a home."""
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    xdg = environ.get("XDG_DATA_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    return Path(xdg) if os.path.isabs(xdg) else Path.home() / ".local" / "share"


def home_folder(
    explicit: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    platform: str = sys.platform,
) -> Path:
    """The absolute path of the home folder, which need not exist yet.

    explicit: the value of ``--home``. Raises UsageError where nothing says which folder it is.
    """
    known = os.environ if environ is None else environ
    chosen = explicit or known.get("CERTIFY_HOME")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        return _platform_data_folder(known, platform) / APPLICATION
    except RuntimeError:
        raise UsageError(
            "no home folder: this user has none",
            where="--home, CERTIFY_HOME",
            hint="set CERTIFY_HOME to a folder that certify may write to",
        ) from None


def database_location(
    home: str | Path | None = None, environ: Mapping[str, str] | None = None
) -> str | Path:
    """A database URL (str), or the absolute path of an SQLite file (Path)."""
    known = os.environ if environ is None else environ
    named = known.get("CERTIFY_DATABASE")
    if not named:
        return home_folder(home, known) / DATABASE_FILE
    return named if "://" in named else Path(named).expanduser().absolute()
