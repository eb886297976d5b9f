"""A recorded trajectory: a small folder that says what was trained, on what, and what came out.

    manifest.json      kind, recipe, backends; sha256 and size of every other file
    plan.json          what the campaign had fixed before launch: weights, batches, rates
    environment.json   versions, sources, device and processor
    records.jsonl      what the one rank of the reference wrote

``kind`` is ``run`` for a trajectory of ours, which `certify reference verify` trains again, and
``imported`` for one read from a log (`certify.reference.foreign`), whose inputs nobody can show.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certify
from certify.campaign.files import read_json, write_atomic
from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "certify.recorded-reference/1"
MANIFEST = "manifest.json"
PLAN, ENVIRONMENT, RECORDS = "plan.json", "environment.json", "records.jsonl"
STEPS = "steps.jsonl"  # of an imported trajectory
KINDS = {"run": (PLAN, ENVIRONMENT, RECORDS), "imported": (ENVIRONMENT, STEPS)}
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True)
class Recorded:
    """One recorded trajectory. backend: of the candidate that it is a reference for; reference:
    the backend that trained it, or the framework that wrote the log; command: makes it again."""

    name: str
    folder: Path
    kind: str
    recipe: str
    backend: str
    reference: str
    scale: str
    steps: int
    command: str

    def read(self, name: str) -> Any:
        """A parsed JSON file of the folder."""
        return read_json(self.folder / name, f"the recorded reference {self.name}")


def shipped_folder() -> Path:
    """The trajectories that come with the product."""
    return Path(certify.__file__).resolve().parent.parent / "reference_runs" / "recorded"


def folders(home: Path) -> list[Path]:
    """Shipped trajectories, then those of this host's home folder."""
    found = []
    for root in (shipped_folder(), home / "recorded"):
        found += sorted(path.parent for path in root.glob(f"*/{MANIFEST}"))
    return found


def find(name: str, home: Path) -> Recorded:
    """A trajectory by its name or folder, every file with the digest of its manifest.

    Raises UsageError for an unknown name, with near ones, and for a damaged folder.
    """
    path = Path(name)
    if (path / MANIFEST).is_file():
        return read(path)
    known = {folder.name: folder for folder in folders(home)}
    if name in known:
        return read(known[name])
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=3, cutoff=0.4)
    raise UsageError(
        f"no recorded reference {name!r}",
        where="reference_runs/recorded",
        expected=f"one of {', '.join(known)}" if known else "a folder with manifest.json",
        hint=f"did you mean {near[0]}?" if near else "certify reference list",
    )


def read(folder: Path) -> Recorded:
    """The trajectory of a folder. Raises UsageError for what is damaged or not of this schema."""
    where = str(folder / MANIFEST)
    body = read_json(folder / MANIFEST, "the manifest")
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        raise UsageError("no recorded reference", where=where, expected=f'"schema": "{SCHEMA}"')
    texts = ("kind", "recipe", "backend", "reference", "scale", "command")
    if not all(isinstance(body.get(key), str) for key in texts) or body["kind"] not in KINDS:
        raise UsageError("the manifest lacks a key", where=where, expected=", ".join(texts))
    files = body.get("files")
    if not isinstance(files, dict) or not set(KINDS[body["kind"]]) <= set(files):
        raise UsageError(
            "the manifest lists too few files",
            where=where,
            expected=", ".join(KINDS[body["kind"]]),
        )
    for name, entry in files.items():
        _check(folder / name, name, entry)
    steps = body.get("steps")
    if not isinstance(steps, int) or steps < 1:
        raise UsageError("the manifest does not count steps", where=where, expected="steps >= 1")
    return Recorded(folder.resolve().name, folder, steps=steps, **{k: body[k] for k in texts})


def _check(path: Path, name: str, entry: Any) -> None:
    if not _NAME.fullmatch(name) or not isinstance(entry, dict):
        raise UsageError(f"the manifest lists {name!r}", where=str(path.parent / MANIFEST))
    try:
        body = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", where=str(path)) from None
    found = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
    if found != entry:
        raise UsageError(
            f"{name} is not what was recorded",
            where=str(path),
            expected=f"sha256 {entry.get('sha256')}, {entry.get('bytes')} bytes",
            hint="take the folder from its source again",
        )


def write(folder: Path, facts: Mapping[str, Any], files: Mapping[str, str]) -> Recorded:
    """Write a folder; the manifest comes last, so that a half-written one is none.

    facts: the manifest's keys beside schema and files. Raises UsageError for a folder that is
    not empty or has a name that none can have.
    """
    if not _NAME.fullmatch(folder.name):
        raise UsageError(
            f"the name {folder.name!r}", where=str(folder), expected="a-z, 0-9, '.' and '-'"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("the folder is not empty", where=str(folder), hint="name another --out")
    for name, text in files.items():
        write_atomic(folder / name, text)
    listed = {
        name: {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text.encode())}
        for name, text in files.items()
    }
    manifest = {"schema": SCHEMA, **facts, "files": listed}
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    return read(folder)
