"""Copies what a page is made of beside it, so that the folder can be sent and judged again."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from certify.errors import InfrastructureError
from reports.source import DOCUMENTS

if TYPE_CHECKING:
    from pathlib import Path

    from reports.source import Source

FOLDER = "evidence"
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class EvidenceFile:
    """One file beside the page. name: within the evidence folder; href: relative to the page;
    of: the phase whose run wrote it, or what it is; short: its name within that."""

    name: str
    of: str
    short: str
    href: str
    size: int
    sha256: str


def copy_evidence(source: Source, out: Path) -> list[EvidenceFile]:
    """Copy documents and records to ``out/evidence`` in the layout of a campaign folder.

    ``certify judge evidence`` then judges them anew, and ``sha256sum -c SHA256SUMS`` checks them.
    Raises InfrastructureError when a file cannot be copied.
    """
    wanted = [*DOCUMENTS, *(path.as_posix() for path in source.record_files())]
    # A link in a campaign that someone sent would put a file of this machine beside the page.
    names = [
        name
        for name in wanted
        if (path := source.folder / name).is_file() and not path.is_symlink()
    ]
    found = []
    for name in names:
        target = out / FOLDER / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.folder / name, target)
            raw = target.read_bytes()
        except OSError as error:
            raise InfrastructureError(
                f"cannot copy the evidence: {error.strerror}", where=str(target)
            ) from None
        href = f"{FOLDER}/{quote(name)}"
        digest = hashlib.sha256(raw).hexdigest()
        found.append(EvidenceFile(name, *_named(source, name), href, len(raw), digest))
    sums = "".join(f"{file.sha256}  {file.name}\n" for file in found)
    (out / FOLDER / SUMS).write_text(sums, encoding="utf-8")
    return found


def _named(source: Source, name: str) -> tuple[str, str]:
    """(phase or "campaign", name within it)."""
    for run in source.runs.values():
        prefix = f"runs/{run.run_id}/"
        if name.startswith(prefix):
            return run.phase, name.removeprefix(prefix)
    return "campaign", name
