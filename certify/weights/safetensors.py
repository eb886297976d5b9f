"""Reads the header of a safetensors file: names, types, shapes and places of its tensors.

Layout: 8 bytes little-endian, the size N of the header; N bytes of JSON; the data. Every byte of
the data belongs to exactly one tensor (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.weights.files import BadFile, strict_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# The format allows 100 MB; a header of 25 MB holds some 200,000 tensors.
HEADER_LIMIT = 25_000_000
MAX_RANK = 16
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_LFS = b"version https://git-lfs"


@dataclass(frozen=True)
class Tensor:
    """dtype: a key of `BITS`; begin, end: bytes from the start of the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """tensors: by name, in the order of their places; metadata: as written, texts only."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    file_bytes: int


def read_header(path: Path) -> Header:
    """The header of a file, checked against the file's size. Raises BadFile in a few words."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(len(_LFS))
            length = _header_length(start, size)
            file.seek(8)
            text = file.read(length)
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror}") from None
    if len(text) != length:
        raise BadFile("ends inside its header")
    body = strict_json(text)
    if not isinstance(body, dict):
        raise BadFile("its header is not a JSON object")
    metadata = body.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise BadFile("its __metadata__ is not an object of texts")
    tensors = {name: _tensor(name, entry) for name, entry in body.items()}
    _check_places(tensors, size - 8 - length)
    ordered = dict(sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)))
    return Header(ordered, metadata, size)


def _header_length(start: bytes, size: int) -> int:
    if start.startswith(_LFS):
        raise BadFile("a Git LFS pointer, not the weights: git lfs pull")
    if start.lstrip()[:1] == b"<":
        raise BadFile("a web page, not weights: download it again")
    if size < 8:
        raise BadFile(f"truncated: {size} bytes, too few for a header")
    length: int = struct.unpack("<Q", start[:8])[0]
    if length > HEADER_LIMIT:
        raise BadFile(f"its header would have {length:,} bytes: damaged, or no safetensors file")
    if 8 + length > size:
        raise BadFile(f"truncated: {size:,} bytes, {8 + length:,} needed for the header alone")
    return length


def _whole(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _tensor(name: str, entry: Any) -> Tensor:
    """One entry of the header. Raises BadFile."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise BadFile(f"{name[:80]!r} has not exactly dtype, shape and data_offsets")
    dtype, shape, places = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise BadFile(f"{name[:80]!r} has the unknown dtype {str(dtype)[:20]!r}")
    if not isinstance(shape, list) or len(shape) > MAX_RANK or not all(map(_whole, shape)):
        raise BadFile(f"{name[:80]!r} has a shape that is not a list of whole numbers")
    if not isinstance(places, list) or len(places) != 2 or not all(map(_whole, places)):
        raise BadFile(f"{name[:80]!r} has data_offsets that are not two whole numbers")
    begin, end = places
    bits = math.prod(shape) * BITS[dtype]
    if begin > end or (end - begin) * 8 != bits:
        raise BadFile(
            f"{name[:80]!r} has {end - begin:,} bytes of data, its shape needs {bits // 8:,}"
        )
    return Tensor(dtype, tuple(shape), begin, end)


def _check_places(tensors: Mapping[str, Tensor], data_bytes: int) -> None:
    """Tensors must follow one another without gap or overlap, up to the end of the file."""
    at, last = 0, ""
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin < at:
            raise BadFile(f"{name[:80]!r} and {last[:80]!r} overlap")
        if tensor.begin > at:
            raise BadFile(f"{tensor.begin - at:,} bytes before {name[:80]!r} belong to no tensor")
        at, last = tensor.end, name
    if at > data_bytes:
        raise BadFile(f"truncated: {data_bytes:,} bytes of data, its header describes {at:,}")
    if at < data_bytes:
        raise BadFile(f"{data_bytes - at:,} bytes at the end belong to no tensor")
