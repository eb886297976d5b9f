"""Read one file that somebody else wrote: bounded, regular, text. Nothing in it is executed."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from certify.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

# The largest published script has 20 KB, the largest list 60 KB.
MAX_BYTES = 1 << 20


def read_source(path: Path) -> str:
    """The text of a regular file of at most `MAX_BYTES`; undecodable bytes become U+FFFD.

    Raises UsageError for a missing, special, binary or larger file: reading a pipe or a device
    would never end.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"cannot read the file: {error.strerror}", where=str(path)) from error
    if not stat.S_ISREG(status.st_mode):
        raise UsageError("not a regular file", where=str(path), expected="a script or a document")
    if status.st_size > MAX_BYTES:
        raise UsageError(
            f"the file has {status.st_size} bytes",
            where=str(path),
            expected=f"at most {MAX_BYTES}, fifty times the largest published script",
        )
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read the file: {error.strerror}", where=str(path)) from error
    if b"\0" in data or len(data) > MAX_BYTES:
        raise UsageError("not a text file", where=str(path), expected="a script or a document")
    return data.decode("utf-8", errors="replace")


def find_root(path: Path) -> Path | None:
    """The folder above ``path`` that is the root of an upstream checkout, if there is one."""
    for folder in path.resolve().parents:
        if (folder / "examples").is_dir() or (folder / "pretrain_gpt.py").is_file():
            return folder
    return None


def inside(root: Path, relative: str) -> Path | None:
    """``root/relative`` if it is a regular file that does not leave ``root``, else None."""
    if len(relative) > 512 or relative.startswith(("/", "~")) or "\0" in relative:
        return None
    try:
        path = (root / relative).resolve()
        return path if path.is_relative_to(root.resolve()) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None
