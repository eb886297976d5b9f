"""Digests that every side computes with these functions, so that equal means equal."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def sample_digest(tokens: bytes, mask: bytes = b"") -> str:
    """sha256 of one sample. tokens: its ids as little-endian int32; mask: one byte per label."""
    return hashlib.sha256(tokens + b"\0" + mask).hexdigest()


def batch_digest(samples: Iterable[str]) -> str:
    """sha256 of a global batch from its sample digests in global order.

    Ranks hash their own samples and exchange digests, so the result does not depend on the
    number of ranks.
    """
    joined = hashlib.sha256()
    for digest in samples:
        joined.update(bytes.fromhex(digest))
    return joined.hexdigest()


def tensor_digest(dtype: str, shape: Iterable[int], raw: bytes) -> str:
    """sha256 of a full (unsharded) tensor. raw: its elements, row-major, little-endian."""
    head = f"{dtype}[{','.join(map(str, shape))}]\0".encode()
    return hashlib.sha256(head + raw).hexdigest()


def root_digest(digests: Mapping[str, str]) -> str:
    """One sha256 over named digests, independent of their order."""
    joined = hashlib.sha256()
    for name in sorted(digests):
        joined.update(f"{name}:{digests[name]}\n".encode())
    return joined.hexdigest()
