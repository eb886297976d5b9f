"""Headers of safetensors files: good ones are read, bad ones are refused in a few words."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from certify.weights.files import BadFile
from certify.weights.safetensors import HEADER_LIMIT, Tensor, read_header
from tests.weights.make import entries, write_shard

GOOD = entries({"b": (2, 3), "a": (4,), "empty": (0, 7), "scalar": ()})


def one(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8], **changes}}


def test_a_good_header(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    text = json.dumps({**GOOD, "__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text) + 3) + text + b"   " + bytes(22))
    header = read_header(path)
    assert list(header.tensors) == ["b", "a", "empty", "scalar"]
    assert header.tensors["b"] == Tensor("BF16", (2, 3), 0, 12)
    assert header.metadata == {"format": "pt"}
    assert header.file_bytes == path.stat().st_size


@pytest.mark.parametrize(
    ("body", "data_bytes", "said"),
    [
        (one(), 7, "truncated: 7 bytes of data, its header describes 8"),
        (one(), 9, "1 bytes at the end belong to no tensor"),
        (one(data_offsets=[2, 10]), 10, "2 bytes before 'a' belong to no tensor"),
        ({**one(), "b": one()["a"]}, 8, "overlap"),
        (one(shape=[5]), 8, "has 8 bytes of data, its shape needs 10"),
        (one(shape=[-4]), 8, "not a list of whole numbers"),
        (one(shape=[True] * 4), 8, "not a list of whole numbers"),
        (one(shape=[2.0, 2]), 8, "not a list of whole numbers"),
        (one(shape=[1] * 17), 8, "not a list of whole numbers"),
        (one(shape=[2**62, 2**62]), 8, "its shape needs"),
        (one(shape="4"), 8, "not a list of whole numbers"),
        (one(dtype="BF17"), 8, "the unknown dtype 'BF17'"),
        (one(dtype=["BF16"]), 8, "the unknown dtype"),
        (one(data_offsets=[8, 0]), 8, "bytes of data"),
        (one(data_offsets=[-8, 0]), 8, "not two whole numbers"),
        (one(data_offsets=[0]), 8, "not two whole numbers"),
        (one(data_offsets=[0, 2**80]), 8, "not two whole numbers"),
        (one(more=1), 8, "has not exactly dtype, shape and data_offsets"),
        ({"a": 3}, 8, "has not exactly dtype, shape and data_offsets"),
        ({"__metadata__": {"a": 1}}, 0, "__metadata__ is not an object of texts"),
        ({"__metadata__": "x"}, 0, "__metadata__ is not an object of texts"),
        (b"[]", 0, "its header is not a JSON object"),
        (b'{"a": 1, "a": 1}', 0, "a JSON object has a key twice"),
        (b"{", 0, "not JSON"),
        (b"[" * 200_000, 0, "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", 0, "not"),
        (b"\xff\xfe", 0, "not UTF-8 at byte 0"),
    ],
)
def test_bad_headers(tmp_path: Path, body: Any, data_bytes: int, said: str) -> None:
    path = tmp_path / "x.safetensors"
    write_shard(path, body, data_bytes)
    with pytest.raises(BadFile, match=said.replace("(", r"\(")):
        read_header(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "truncated: 0 bytes"),
        (b"1234567", "truncated: 7 bytes"),
        (struct.pack("<Q", 2**63) + b"{}", "its header would have 9,223,372,036,854,775,808 bytes"),
        (struct.pack("<Q", HEADER_LIMIT + 1) + b"{}", "damaged, or no safetensors file"),
        (struct.pack("<Q", 1000) + b"{}", "truncated: 10 bytes, 1,008 needed for the header"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "a web page, not weights"),
    ],
)
def test_what_is_no_safetensors_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=said):
        read_header(path)


FOLDER_IS_SHARED = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FOLDER_IS_SHARED
@given(st.integers(0, 400), st.integers(0, 255))
@example(0, 255)
@example(7, 127)
def test_one_changed_byte_is_refused_or_harmless(tmp_path: Path, at: int, value: int) -> None:
    path = tmp_path / "x.safetensors"
    write_shard(path, GOOD)
    content = bytearray(path.read_bytes())
    content[at % len(content)] = value
    path.write_bytes(content)
    try:
        header = read_header(path)
    except BadFile:
        return
    assert sum(one.end - one.begin for one in header.tensors.values()) == 22


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@FOLDER_IS_SHARED
@given(
    st.dictionaries(
        st.text(max_size=3),
        VALUES | st.fixed_dictionaries({"dtype": VALUES, "shape": VALUES, "data_offsets": VALUES}),
        max_size=3,
    )
)
def test_any_json_is_refused_or_read(tmp_path: Path, body: dict[str, Any]) -> None:
    path = tmp_path / "x.safetensors"
    write_shard(path, json.dumps(body).encode(), 0)
    try:
        header = read_header(path)
    except BadFile:
        return
    assert set(header.tensors) == set(body) - {"__metadata__"}
