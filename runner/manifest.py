"""What makes a checkpoint folder a committed one: ``COMMIT.json`` with the digest of every file.

A folder without it is partial. The storage format underneath detects neither flipped bits nor
a mixture of old and new files; this does. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from certify.errors import UsageError

NAME = "COMMIT.json"
SCHEMA = "certify.checkpoint/1"
_FOLDER = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True)
class Manifest:
    """step: steps trained; next_batch: the data cursor; files: name -> {size, sha256}."""

    run_id: str
    step: int
    next_batch: int
    world_size: int
    files: dict[str, dict[str, Any]]
    schema: str = SCHEMA


def step_folder(run_dir: str | Path, step: int) -> Path:
    """Where the checkpoint after `step` is committed."""
    return Path(run_dir) / "checkpoints" / f"step-{step:06d}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _seal(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def fsync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def commit(partial: Path, final: Path, run_id: str, step: int, next_batch: int, ranks: int) -> None:
    """Turn a complete partial folder into the committed one. Raises OSError (a full disk)."""
    files = {
        str(path.relative_to(partial)): {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(partial.rglob("*"))
        if path.is_file() and path.name != NAME
    }
    body = asdict(Manifest(run_id, step, next_batch, ranks, files))
    with (partial / NAME).open("w", encoding="utf-8") as file:
        json.dump({**body, "seal": _seal(body)}, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    fsync_folder(partial)
    replaced = final.with_name(final.name + ".old")
    shutil.rmtree(replaced, ignore_errors=True)
    if final.exists():
        final.rename(replaced)
    partial.rename(final)
    fsync_folder(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _refuse(what: str, where: Path) -> UsageError:
    return UsageError(
        what,
        where=str(where),
        expected="a committed checkpoint whose files are as they were written",
        hint="resume from an earlier checkpoint, or train again up to this step",
    )


def read(folder: Path) -> Manifest:
    """The manifest of a committed checkpoint. Raises UsageError for a partial one."""
    path = folder / NAME
    try:
        body = json.loads(path.read_text("utf-8"))
        seal = body.pop("seal")
        manifest = Manifest(**body)
    except FileNotFoundError:
        raise _refuse("the checkpoint was not committed: its manifest is missing", path) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refuse(f"the manifest of the checkpoint is unreadable: {error}", path) from None
    if manifest.schema != SCHEMA or seal != _seal(body):
        raise _refuse("the manifest of the checkpoint was changed", path)
    return manifest


def verify(folder: Path) -> Manifest:
    """Check every file of a checkpoint. Raises UsageError naming the first bad one."""
    manifest = read(folder)
    for name, entry in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise _refuse("a file of the checkpoint is missing", path)
        size = path.stat().st_size
        if size != entry["size"]:
            raise _refuse(f"a checkpoint file has {size} bytes, not {entry['size']}", path)
        if _sha256(path) != entry["sha256"]:
            raise _refuse("a checkpoint file has another sha256 than when written", path)
    return manifest


def committed(parent: Path) -> list[tuple[int, Path]]:
    """(step, folder) of committed checkpoints, oldest first; their files are not checked."""
    found = []
    for folder in parent.glob("step-*") if parent.is_dir() else ():
        number = _FOLDER.fullmatch(folder.name)
        if number and (folder / NAME).is_file():
            found.append((int(number[1]), folder))
    return sorted(found)


def _is_good(folder: Path) -> bool:
    try:
        verify(folder)
    except (UsageError, OSError):
        return False
    return True


def retain(parent: Path, keep: int, protected: frozenset[int]) -> list[int]:
    """Delete old checkpoints and leftovers of interrupted saves; returns the deleted steps.

    The newest `keep` stay (at least one), and so do protected steps: later phases need them. The
    newest checkpoint whose files are as written stays too: where later ones were damaged, it is
    the one to resume from. Files are read for that only when something would be deleted.
    """
    found = committed(parent)
    old = [entry for entry in found[: -max(keep, 1)] if entry[0] not in protected]
    good = None
    if old:
        good = next((step for step, folder in reversed(found) if _is_good(folder)), None)
    deleted = [step for step, _ in old if good is not None and step != good]
    for step, folder in old:
        if step in deleted:
            # Without its manifest a folder is partial, so a kill in the middle is harmless.
            (folder / NAME).unlink()
            shutil.rmtree(folder)
    for leftover in parent.glob("step-*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    return deleted
