"""The container of a bundle: a POSIX ustar file in the only form that we accept.

Members are regular files in order of their names, with mode 0644 and without owner or time, each
header equal byte for byte to the one we would write. A link, a device, a second member of a name,
a path that leads elsewhere, padding that is not zero, bytes behind the end: none of it can occur in
such a file, so reading needs no list of things to forbid. Nothing is compressed: the size of the
file bounds what it can unpack to, and no two versions of a compressor can differ.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

BLOCK = 512
MODE = 0o644
END = b"\0" * (2 * BLOCK)
MOST_MEMBERS = 20_000
# Larger evidence is refused on both sides: a reader must not be made to fill its disk.
MOST_BYTES = 512 << 20
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.DIRTYPE: "a folder",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


class DamagedError(Exception):
    """The file is not a bundle as we write it. args[0]: what is wrong, one clause."""


@dataclass(frozen=True)
class Member:
    """One file of a bundle. offset: of its first byte in the archive; size: in bytes."""

    name: str
    offset: int
    size: int
    sha256: str


def name_fault(name: str) -> str | None:
    """Why a name may not stand in a bundle, or None."""
    if name.startswith("/") or "\\" in name:
        return f"the name {name!r} is absolute"
    if ".." in name.split("/"):
        return f"the name {name!r} leads out of the folder"
    if not all(_PART.fullmatch(part) for part in name.split("/")):
        return f"the name {name!r} holds characters that no name of ours has"
    return None


def header(name: str, size: int) -> bytes:
    """The 512 bytes that stand before a member. Raises DamagedError for a name that cannot be."""
    if fault := name_fault(name):
        raise DamagedError(fault)
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, MODE
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except ValueError:
        raise DamagedError(f"the name {name!r} is too long") from None


def write_archive(out: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """Write the files (name -> content, or the file that holds it) in canonical form.

    Raises DamagedError for a name or size that may not be, OSError.
    """
    if len(files) > MOST_MEMBERS:
        raise DamagedError(f"{len(files)} files are more than {MOST_MEMBERS}")
    total = 0
    for name in sorted(files):
        content = files[name]
        data = content if isinstance(content, bytes) else content.read_bytes()
        total += len(data) + BLOCK
        if total > MOST_BYTES:
            raise DamagedError(f"the evidence is larger than {MOST_BYTES >> 20} MiB")
        out.write(header(name, len(data)) + data + b"\0" * (-len(data) % BLOCK))
    out.write(END)


def read_archive(file: BinaryIO, size: int) -> tuple[Member, ...]:
    """The members of an archive whose every byte is as we write it. size: of the file, bytes.

    Raises DamagedError saying what is not, and OSError.
    """
    if size > MOST_BYTES + len(END):
        raise DamagedError(f"the file is larger than {MOST_BYTES >> 20} MiB")
    members: list[Member] = []
    while (block := file.read(BLOCK)) != b"\0" * BLOCK:
        member = _member(file, block, size, members[-1].name if members else "")
        members.append(member)
        if len(members) > MOST_MEMBERS:
            raise DamagedError(f"more than {MOST_MEMBERS} files")
    if file.read(BLOCK + 1) != b"\0" * BLOCK:
        raise DamagedError("the archive does not end where its end is marked")
    return tuple(members)


def _member(file: BinaryIO, block: bytes, size: int, before: str) -> Member:
    if len(block) < BLOCK:
        raise DamagedError("the archive is cut off")
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError) as error:
        raise DamagedError(f"not an archive, or a damaged one ({error})") from None
    if info.type in _KINDS:
        raise DamagedError(f"{info.name!r} is {_KINDS[info.type]}")
    if fault := name_fault(info.name):
        raise DamagedError(fault)
    if info.name <= before:
        what = "is there twice" if info.name == before else "is out of order"
        raise DamagedError(f"{info.name!r} {what}")
    if header(info.name, info.size) != block:
        raise DamagedError(f"the header of {info.name!r} is not in canonical form")
    offset = file.tell()
    if info.size > size - offset:
        raise DamagedError(f"{info.name!r} claims {info.size} bytes, which are not there")
    digest = hashlib.sha256()
    for part in _parts(file, info.size):
        digest.update(part)
    padding = file.read(-info.size % BLOCK)
    if padding != b"\0" * (-info.size % BLOCK):
        raise DamagedError(f"there are bytes behind the end of {info.name!r}")
    return Member(info.name, offset, info.size, digest.hexdigest())


def _parts(file: BinaryIO, size: int) -> Iterable[bytes]:
    while size > 0:
        part = file.read(min(size, 1 << 20))
        if not part:
            raise DamagedError("the archive is cut off")
        size -= len(part)
        yield part
