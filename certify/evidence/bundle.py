"""Writing a bundle: ``evidence.tar`` in the folder of a campaign.

The same folder and key give the same bytes: names are sorted, times and owners left out, JSON has
one text (`certify.evidence.canonical`), and nothing is compressed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign.files import write_atomic
from certify.errors import InfrastructureError, UsageError
from certify.evidence.archive import DamagedError, write_archive
from certify.evidence.attest import envelope_text, plan_statement, result_statement
from certify.evidence.canonical import canonical, file_sha256, sha256
from certify.evidence.contents import PLAN, PLAN_STATEMENT, VERDICT, collect
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "certify.bundle/1"
MANIFEST, ATTESTATION = "manifest.json", "attestation.intoto.jsonl"
FILE = "evidence.tar"


def manifest_of(files: Mapping[str, bytes | Path], folders: list[str]) -> dict[str, Any]:
    """The manifest: size in bytes and sha256 of every file, and the names of all run folders (an
    attempt that left nothing is still an attempt)."""
    return {
        "schema": SCHEMA,
        "files": {
            name: (
                {"size": len(content), "sha256": sha256(content)}
                if isinstance(content, bytes)
                else {"size": content.stat().st_size, "sha256": file_sha256(content)}
            )
            for name, content in files.items()
        },
        "run_folders": folders,
    }


def fix_plan(folder: Path, campaign: str, now_unix_s: float, key: Path | None) -> None:
    """Write the statement of the plan beside it, signed when there is a key.

    To be called before anything that it plans is launched.
    """
    plan = (folder / PLAN).read_bytes()
    text = envelope_text(plan_statement(plan, campaign, now_unix_s), key)
    write_atomic(folder / PLAN_STATEMENT, text.decode())


def write_bundle(folder: Path, key: Path | None, out: Path | None = None) -> tuple[Path, str]:
    """Write the bundle of a judged campaign; returns its path and sha256.

    key: signs it (`certify.evidence.keys.signing_key`); without one the bundle is unsigned. out:
    the file to write instead of ``evidence.tar`` in the folder.
    Raises UsageError for a folder without plan or verdict or a key that cannot sign, and
    InfrastructureError when it cannot be written or is too large.
    """
    path = folder / FILE if out is None else out
    files, folders = collect(folder)
    manifest = canonical(manifest_of(files, folders))
    plan, verdict = (folder / PLAN).read_bytes(), load_json((folder / VERDICT).read_bytes())
    try:
        statement = result_statement(manifest, plan, verdict)
    except (KeyError, TypeError):
        raise UsageError("the verdict is not one of ours", where=str(folder / VERDICT)) from None
    files |= {MANIFEST: manifest, ATTESTATION: envelope_text(statement, key)}
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                write_archive(file, files)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            digest = file_sha256(Path(name))
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except DamagedError as error:
        raise InfrastructureError(
            f"the evidence does not fit into a bundle: {error.args[0]}", where=str(folder)
        ) from None
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the bundle: {error.strerror}",
            where=str(path),
            hint="free disk space and call again",
        ) from error
    return path, digest
