"""Sizes of vocabularies, read from each kind of tokenizer file."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from certify.weights.files import BadFile
from certify.weights.tokenizer import READERS, count_pieces
from tests.weights.make import tokenizer_json


def piece(text: str) -> bytes:
    """One piece of a sentencepiece model: text, score and type."""
    raw = text.encode()
    body = b"\x0a" + bytes([len(raw)]) + raw + b"\x15\x00\x00\x80\x3f" + b"\x18\x01"
    return b"\x0a" + bytes([len(body)]) + body


MODEL = b"".join(map(piece, ("<unk>", "a", "b"))) + b"\x12\x02\x18\x01" + b"\x20\x05"


def test_tokenizer_json(tmp_path: Path) -> None:
    read = READERS["tokenizer.json"]
    assert read(tmp_path) is None
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json(40)))
    assert read(tmp_path) == 40
    unigram = {"model": {"vocab": [["<unk>", 0.0], ["a", -1.0]]}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(unigram))
    assert read(tmp_path) == 2


def test_vocab_json(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 7}')
    with pytest.raises(BadFile, match=r"merges.txt is missing"):
        READERS["vocab.json"](tmp_path)
    (tmp_path / "merges.txt").write_text("#version\n")
    assert READERS["vocab.json"](tmp_path) == 8
    (tmp_path / "added_tokens.json").write_text('{"<pad>": 11}')
    assert READERS["vocab.json"](tmp_path) == 12


def test_sentencepiece(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(MODEL)
    assert READERS["tokenizer.model"](tmp_path) == 3
    (tmp_path / "added_tokens.json").write_text('{"<pad>": 3}')
    assert READERS["tokenizer.model"](tmp_path) == 4


def test_tiktoken_lines(tmp_path: Path) -> None:
    lines = [f"{base64.b64encode(bytes([n])).decode()} {n}" for n in range(20)]
    (tmp_path / "tokenizer.model").write_text("\n".join(lines) + "\n")
    assert READERS["tokenizer.model"](tmp_path) == 20


@pytest.mark.parametrize(
    "data", [b"", MODEL[:-1], b"\x0a\xff", b"\x0a" + b"\xff" * 11, b"\x0b\x00", b"\x20\x05"]
)
def test_no_sentencepiece_model(data: bytes) -> None:
    with pytest.raises(BadFile, match="not a sentencepiece model"):
        count_pieces(data)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": {"vocab": 3}},
        {"model": {"vocab": {"a": "0"}}},
        {"model": {"vocab": {}}, "added_tokens": [3]},
        {"model": {"vocab": {}}, "added_tokens": [{"id": None}]},
        {"model": {"vocab": {}}, "added_tokens": {"a": 1}},
    ],
)
def test_bad_tokenizer_json(tmp_path: Path, body: object) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(body))
    with pytest.raises(BadFile):
        READERS["tokenizer.json"](tmp_path)
