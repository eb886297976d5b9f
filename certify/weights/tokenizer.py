"""How many ids the tokenizer files of a checkpoint can produce, read without any library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.weights.files import (
    TOKENIZER_LIMIT,
    BadFile,
    locate,
    read_json,
    read_limited,
    strict_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Wire types of protocol buffers: variable integers, 8 bytes, counted bytes, 4 bytes.
_VARINT, _EIGHT, _COUNTED, _FOUR = 0, 1, 2, 5
_PIECES = 1  # field number of the pieces in sentencepiece's ModelProto


@dataclass(frozen=True)
class Vocabulary:
    """file: where it was read; size: largest id + 1."""

    file: str
    size: int


def _ids(values: Any) -> list[int]:
    found = list(values)
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
        raise BadFile("an id is not a whole number")
    return found


def _added(entries: Any) -> list[int]:
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise BadFile("added_tokens is not a list of objects")
    return _ids(one.get("id") for one in entries)


def _from_json(folder: Path) -> int | None:
    """tokenizer.json: a table from token to id, or a list of pieces, and the added tokens."""
    body = read_json(folder, "tokenizer.json", TOKENIZER_LIMIT)
    if body is None:
        return None
    model = body.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):
        ids = _ids(vocab.values())
    elif isinstance(vocab, list):
        ids = [len(vocab) - 1]
    else:
        raise BadFile("it has no model.vocab")
    return max([-1, *ids, *_added(body.get("added_tokens") or [])]) + 1


def _from_vocab(folder: Path) -> int | None:
    """vocab.json of a byte-level BPE; merges.txt must stand beside it."""
    table = read_json(folder, "vocab.json", TOKENIZER_LIMIT)
    if table is None:
        return None
    if locate(folder, "merges.txt") is None:
        raise BadFile("merges.txt is missing beside it")
    more = read_json(folder, "added_tokens.json", TOKENIZER_LIMIT) or {}
    return max([-1, *_ids(table.values()), *_ids(more.values())]) + 1


def _from_sentencepiece(folder: Path) -> int | None:
    """tokenizer.model: one piece an id. A tiktoken file under this name has a line a token."""
    path = locate(folder, "tokenizer.model")
    if path is None:
        return None
    data = read_limited(path, TOKENIZER_LIMIT)
    lines = data.splitlines()
    if lines and all(len(line.split()) == 2 and line.split()[1].isdigit() for line in lines[:3]):
        return max(int(line.split()[1][:12]) for line in lines if line.split()[1:]) + 1
    more = {}
    added = locate(folder, "added_tokens.json")
    if added is not None:
        more = strict_json(read_limited(added, TOKENIZER_LIMIT))
        if not isinstance(more, dict):
            raise BadFile("added_tokens.json is not an object")
    return max([count_pieces(data) - 1, *_ids(more.values())]) + 1


def count_pieces(data: bytes) -> int:
    """Number of pieces in a sentencepiece model. Raises BadFile when it is none."""
    at = pieces = 0
    while at < len(data):
        key, at = _varint(data, at)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            _, at = _varint(data, at)
        elif wire in (_EIGHT, _FOUR):
            at += 8 if wire == _EIGHT else 4
        elif wire == _COUNTED:
            length, at = _varint(data, at)
            at += length
        else:
            raise BadFile("not a sentencepiece model")
        pieces += field == _PIECES and wire == _COUNTED
    if at != len(data) or not pieces:
        raise BadFile("truncated, or not a sentencepiece model")
    return pieces


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadFile("truncated, or not a sentencepiece model")


# File -> its reader, in the order in which transformers looks for them.
READERS: dict[str, Callable[[Path], int | None]] = {
    "tokenizer.json": _from_json,
    "tokenizer.model": _from_sentencepiece,
    "vocab.json": _from_vocab,
}
