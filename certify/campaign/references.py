"""Reference trajectories, kept by the digest of everything that decides them.

A reference is taken again only when its key is equal: configuration, data, weights, evidence,
versions of what trains it, device and processor. Entries are complete folders, moved into place
whole, with a manifest that is checked before use: a damaged entry counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from typing import TYPE_CHECKING, Any

from certify.campaign.files import write_json
from certify.errors import InfrastructureError
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST = "manifest.json"


def reference_key(parts: Mapping[str, Any]) -> str:
    """sha256 over the canonical JSON of everything that decides a reference trajectory."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _files(folder: Path) -> dict[str, str]:
    """Relative name -> sha256 of all files that a judge or a comparison reads."""
    kept = [
        path
        for part in ("records", "evidence")
        for path in sorted((folder / part).rglob("*"))
        if path.is_file()
    ]
    return {str(path.relative_to(folder)): _sha256(path) for path in kept}


def _copy(source: Path, target: Path) -> None:
    """A copy, not a link: a change to one campaign's records must not reach another's."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def store(cache: Path, key: str, runs: Mapping[str, Path]) -> None:
    """Keep the runs of a reference (phase name -> run folder) under ``cache/key``."""
    final = cache / key
    if find(cache, key) is not None:
        return
    staging = cache / f".{key}.{uuid.uuid4().hex[:8]}"
    try:
        manifest = {}
        for phase, folder in runs.items():
            manifest[phase] = _files(folder)
            for name in manifest[phase]:
                _copy(folder / name, staging / phase / name)
        write_json(staging / MANIFEST, manifest)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(staging, final)
    except OSError as error:
        if find(cache, key) is not None:
            return  # another process kept the same reference first
        raise InfrastructureError(
            f"cannot keep the reference: {error.strerror}", where=str(final)
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def find(cache: Path, key: str) -> Path | None:
    """The entry's folder if it is there and every file has the digest of its manifest."""
    folder = cache / key
    try:
        manifest = load_json((folder / MANIFEST).read_text(encoding="utf-8"))
        good = all(
            _sha256(folder / phase / name) == digest
            for phase, files in manifest.items()
            for name, digest in files.items()
        )
    except (OSError, ValueError, AttributeError):
        return None
    return folder if good and manifest else None


def restore(entry: Path, phase: str, run_folder: Path) -> bool:
    """Place one cached run into a campaign. False when the entry does not have that phase."""
    source = entry / phase
    if not source.is_dir():
        return False
    shutil.rmtree(run_folder, ignore_errors=True)
    for path in sorted(source.rglob("*")):
        if path.is_file():
            _copy(path, run_folder / path.relative_to(source))
    return True
