"""The record format: what is written can be read, what is damaged is said precisely."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify import records
from certify.errors import UsageError
from certify.records import End, Event, Header, State, Step, Writer

HEADER = Header("run", "candidate", "fsdp2", 0, 2, 123, 1.5)


def step(number: int, loss: float = 6.25) -> Step:
    return Step(
        step=number,
        loss=loss,
        loss_hex=loss.hex(),
        grad_norm=1.0,
        grad_norm_hex=(1.0).hex(),
        lr=1e-3,
        tokens=512,
        supervised_tokens=512,
        tokens_sha256="a" * 64,
        mask_sha256="b" * 64,
        batch=number - 1,
        step_time_s=0.1,
        peak_bytes=1,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return records.rank_file(tmp_path, 0)


def write(path: Path, *items: records.Record) -> None:
    writer = Writer(path, HEADER)
    for item in items:
        writer.write(item)
    writer.close()


def test_round_trip(path: Path) -> None:
    items = (step(1), State("init", 0, {"params": "f" * 64}), End("completed", 1, 2.0, 3.0))
    write(path, *items)
    read = records.read_file(path)
    assert read.header == HEADER
    assert read.records == (HEADER, *items)
    assert not read.truncated
    assert read.steps() == {1: items[0]}
    assert read.last(End) == items[2]
    assert read.of(Event) == []


def test_nan_stays_nan(path: Path) -> None:
    write(path, step(1, math.nan))
    assert math.isnan(records.read_file(path).steps()[1].loss)


def test_a_restart_appends_and_its_steps_count(path: Path) -> None:
    write(path, step(1), step(2, 5.0))
    writer = Writer(path, Header("run", "candidate", "fsdp2", 0, 2, 124, 2.5, attempt=1))
    writer.write(step(2, 4.0))
    writer.close()
    read = records.read_file(path)
    assert read.header.attempt == 1
    assert read.steps()[2].loss == 4.0


def test_truncated_last_line_is_reported_and_left_out(path: Path) -> None:
    write(path, step(1), step(2))
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines()[-1])):
        path.write_bytes(whole[: -cut - 1])
        read = records.read_file(path)
        assert read.truncated
        assert list(read.steps()) == [1]


def test_a_restart_goes_on_after_a_cut_line(path: Path) -> None:
    write(path, step(1), step(2))
    path.write_bytes(path.read_bytes()[:-9])
    writer = Writer(path, Header("run", "candidate", "fsdp2", 0, 2, 124, 2.5, attempt=1))
    writer.write(step(2, 4.0))
    writer.close()
    read = records.read_file(path)
    assert (read.truncated, read.header.attempt) == (False, 1)
    assert read.steps()[2].loss == 4.0
    # Anything but a header after it is damage.
    first, header, rest = path.read_bytes().partition(b'{"kind": "header", "run_id"')
    again = rest.replace(b'{"kind": "header"', b'{"kind": "event"')
    path.write_bytes(first + header + again)
    with pytest.raises(UsageError, match="not JSON"):
        records.read_file(path)


def test_a_last_line_without_newline_that_is_whole_counts(path: Path) -> None:
    write(path, step(1), step(2))
    path.write_bytes(path.read_bytes()[:-1])
    assert list(records.read_file(path).steps()) == [1, 2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"kind": "strep"}', "unknown kind 'strep'"),
        ('{"kind": "end", "status": "completed", "steps": 1, "wall_s": 1}', "lacks field 'cpu_s'"),
        (
            '{"kind": "end", "status": "x", "steps": 1, "wall_s": 1, "cpu_s": 1, "x": 1}',
            "no field 'x'",
        ),
        ('{"kind": "end", "status": "x", "steps": "1", "wall_s": 1, "cpu_s": 1}', "end.steps"),
        ('{"kind": "end", "status": "x", "steps": true, "wall_s": 1, "cpu_s": 1}', "end.steps"),
        ('{"kind": "state", "at": "init", "step": 0, "digests": []}', "state.digests"),
    ],
)
def test_anything_else_malformed_names_file_and_line(path: Path, line: str, message: str) -> None:
    write(path, step(1))
    with path.open("a") as file:
        file.write(line + "\n" + json.dumps({"kind": "event"}) + "\n")
    with pytest.raises(UsageError, match="malformed record") as caught:
        records.read_file(path)
    assert message in caught.value.what
    assert caught.value.where == f"{path}:3"


def test_a_file_without_header_and_a_missing_file(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("")
    with pytest.raises(UsageError, match="first record is not a header"):
        records.read_file(path)
    with pytest.raises(UsageError, match="cannot read records"):
        records.read_file(tmp_path / "none.jsonl")
    assert records.read_run(tmp_path / "none") == []


def test_another_schema_is_refused(path: Path) -> None:
    write(path)
    path.write_text(path.read_text().replace(records.SCHEMA, "certify.records/9"))
    with pytest.raises(UsageError, match=r"certify\.records/9"):
        records.read_file(path)


def test_runs_and_control_streams(tmp_path: Path) -> None:
    for rank in (1, 0):
        header = Header("run", "candidate", "fsdp2", rank, 2, 123, 1.5)
        Writer(records.rank_file(tmp_path, rank), header).close()
        Writer(records.rank_file(tmp_path, rank, "control-x"), header).close()
    assert [f.header.rank for f in records.read_run(tmp_path)] == [0, 1]
    assert records.control_streams(tmp_path) == ["control-x"]
    assert len(records.read_run(tmp_path, "control-x")) == 2


def test_batch_digest_does_not_depend_on_the_number_of_ranks_but_on_order() -> None:
    samples = [records.sample_digest(bytes([i] * 8)) for i in range(4)]
    by_rank = samples[:2] + samples[2:]
    assert records.batch_digest(by_rank) == records.batch_digest(samples)
    assert records.batch_digest(reversed(samples)) != records.batch_digest(samples)
    joined = b"".join(bytes.fromhex(s) for s in samples)
    assert records.batch_digest(samples) == hashlib.sha256(joined).hexdigest()


def test_sample_digest_separates_tokens_from_mask() -> None:
    assert records.sample_digest(b"ab", b"c") != records.sample_digest(b"a", b"bc")


@given(st.binary(min_size=1, max_size=64))
def test_tensor_digest_sees_type_shape_and_bytes(raw: bytes) -> None:
    base = records.tensor_digest("float32", (2, 3), raw)
    assert base != records.tensor_digest("float64", (2, 3), raw)
    assert base != records.tensor_digest("float32", (3, 2), raw)
    assert base != records.tensor_digest("float32", (2, 3), raw + b"\0")


def test_root_digest_is_independent_of_order_and_sees_names() -> None:
    assert records.root_digest({"a": "1", "b": "2"}) == records.root_digest({"b": "2", "a": "1"})
    assert records.root_digest({"a": "1"}) != records.root_digest({"b": "1"})


@given(st.binary(max_size=400))
def test_any_bytes_are_an_error_of_ours_or_records(tmp_path_factory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "rank-00000.jsonl"
    path.write_bytes(raw)
    with pytest.raises(UsageError):
        records.read_file(path)
