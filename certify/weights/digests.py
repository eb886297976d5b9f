"""SHA-256 digests of files against a list of published ones."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from certify.errors import UsageError
from certify.weights.files import BadFile, UnsafeFile, locate, read_limited
from certify.weights.findings import shown

if TYPE_CHECKING:
    from pathlib import Path

    from certify.weights.findings import Findings

LIMIT = 16_000_000
_GNU = re.compile(r"\\?([0-9a-fA-F]{64}) [ *](.+)")
_BSD = re.compile(r"SHA256 \((.+)\) = ([0-9a-fA-F]{64})")
_CHUNK = 1 << 22


def read_manifest(path: Path) -> dict[str, str]:
    """File name -> digest, from the output of ``sha256sum`` in either of its forms.

    Raises UsageError naming file and line.
    """
    try:
        text = read_limited(path, LIMIT).decode("utf-8-sig")
    except (BadFile, UnicodeDecodeError) as error:
        raise UsageError(f"cannot use the list of digests: {error}", where=str(path)) from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        gnu, bsd = _GNU.fullmatch(line), _BSD.fullmatch(line)
        if gnu:
            digest, name = gnu.groups()
        elif bsd:
            name, digest = bsd.groups()
        else:
            raise UsageError(
                f"not a digest and a name: {shown(line)!r}",
                where=f"{path}:{number}",
                expected="lines as sha256sum writes them",
            )
        name = name.removeprefix("./")
        if found.setdefault(name, digest.lower()) != digest.lower():
            raise UsageError(
                f"{shown(name)!r} has two digests", where=f"{path}:{number}", expected="one"
            )
    if not found:
        raise UsageError("the list of digests is empty", where=str(path))
    return found


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content. Raises BadFile when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def check(folder: Path, published: dict[str, str], present: set[str], found: Findings) -> int:
    """Compare every listed file; returns how many were equal. present: files that matter."""
    equal = 0
    for name, digest in sorted(published.items()):
        try:
            path = locate(folder, name, nested=True)
            actual = sha256_of(path) if path else None
        except UnsafeFile as error:
            found.error("W02", shown(name), str(error), "a file of this folder")
            continue
        except BadFile as error:
            found.error("W12", shown(name), str(error))
            continue
        if actual is None:
            found.error("W12", shown(name), "missing", "the file that the list names")
        elif actual != digest:
            found.error(
                "W12", shown(name), f"sha256 {actual}", f"sha256 {digest}", "download it again"
            )
        else:
            equal += 1
    if unlisted := sorted(present - set(published)):
        found.note("W12", shown(unlisted[0]), f"{len(unlisted)} files are not in the list")
    return equal
