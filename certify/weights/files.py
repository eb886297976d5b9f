"""Opens the files of a folder that nobody vouches for.

Only plain files inside the folder are read. A link out of it is refused, with one exception: the
cache of huggingface_hub, whose snapshots are links into its own ``blobs``.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# Bytes that are read of one file, well above what is published.
INDEX_LIMIT = 32_000_000
CONFIG_LIMIT = 4_000_000
TOKENIZER_LIMIT = 64_000_000
# Commas bound the number of values, and with it the memory (some 200 bytes each). Published
# files stay well below.
COMMA_LIMIT = 2_000_000


class UnsafeFile(Exception):
    """A name or file that is not read. The message says why, in a few words."""


class BadFile(Exception):
    """A file that cannot be used. The message says why, in a few words."""


def plain_name(name: str) -> bool:
    """Whether a name from an index is that of a file in the same folder."""
    return bool(name) and not any(one in name for one in "/\\\0") and name not in (".", "..")


def locate(folder: Path, name: str, *, nested: bool = False) -> Path | None:
    """The path of a plain file of the folder, None when it is absent.

    nested: names with folders in them are allowed. Raises UnsafeFile for a name that leads out
    of the folder, a link out of it, and anything that is not a regular file; BadFile for what
    cannot be opened.
    """
    parts = name.split("/") if nested else [name]
    if not all(map(plain_name, parts)):
        raise UnsafeFile("not the name of a file in this folder")
    path = folder / name
    try:
        if not os.path.lexists(path):
            return None
        real, home = path.resolve(strict=True), folder.resolve(strict=True)
        mode = real.stat().st_mode
    except FileNotFoundError:
        raise BadFile("a link to a file that is not there") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise BadFile(str(getattr(error, "strerror", None) or "cannot be opened")) from None
    if home not in real.parents and _blobs(home) not in real.parents:
        raise UnsafeFile("a link out of the folder")
    if not stat.S_ISREG(mode):
        raise UnsafeFile("not a regular file")
    return path


def _blobs(home: Path) -> Path:
    """The blobs that a snapshot of huggingface_hub's cache links to (a path that is nothing
    where the folder is no such snapshot)."""
    if home.parent.name == "snapshots" and home.parent.parent.name.startswith("models--"):
        return home.parent.parent / "blobs"
    return home / ".no-blobs"


def read_limited(path: Path, limit: int) -> bytes:
    """The bytes of a file. Raises BadFile when it is larger than the limit or unreadable."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise BadFile(f"larger than {limit:,} bytes, which is more than is read")
    return data


def strict_json(data: bytes) -> Any:
    """A JSON value without repeated keys, of bounded size in memory. Raises BadFile."""
    if data.count(b",") > COMMA_LIMIT:
        raise BadFile(f"more than {COMMA_LIMIT:,} values, which is more than is read")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise BadFile("a JSON object has a key twice")
        return found

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=once)
    except UnicodeDecodeError as error:
        raise BadFile(f"not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise BadFile(f"not JSON: {str(error)[:100]}") from None


def read_json(folder: Path, name: str, limit: int) -> dict[str, Any] | None:
    """A JSON object of the folder, None when the file is absent.

    Raises UnsafeFile and BadFile.
    """
    path = locate(folder, name)
    if path is None:
        return None
    body = strict_json(read_limited(path, limit))
    if not isinstance(body, dict):
        raise BadFile("not a JSON object")
    return body
