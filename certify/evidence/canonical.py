"""The one JSON text of a value: two bundles of one campaign must be equal byte for byte."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from certify.json_text import load_json

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = 1 << 20


def canonical(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys, one entry a line, no NaN. Raises ValueError for a NaN."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    return (text + "\n").encode()


def parse_canonical(data: bytes) -> Any:
    """The value of a canonical text. Raises ValueError when this is another text of it."""
    value = load_json(data.decode("utf-8"))
    if canonical(value) != data:
        raise ValueError("not in canonical form")
    return value


def sha256(data: bytes) -> str:
    """Hexadecimal digest."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    """Hexadecimal digest of a file, read in blocks. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
