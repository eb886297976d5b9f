"""Small files that must never be seen half-written."""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

from certify.errors import InfrastructureError, UsageError
from certify.json_text import load_json

if TYPE_CHECKING:
    from pathlib import Path


def write_atomic(path: Path, text: str) -> None:
    """Replace a file by its new text, durably. Raises InfrastructureError when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InfrastructureError(
            f"cannot write: {error.strerror}",
            where=str(path),
            hint="free disk space or choose another folder with --out DIR",
        ) from error


def write_json(path: Path, body: Any) -> None:
    """`write_atomic` of a JSON document."""
    write_atomic(path, json.dumps(body, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path, what: str) -> Any:
    """Parse a JSON file. what: how messages call it. Raises UsageError naming the file."""
    try:
        return load_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {what}: {error.strerror}", where=str(path)) from None
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}", where=str(path)) from None
