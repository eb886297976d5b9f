"""Every accepted form of text, and what is said about a form that is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from certify.errors import UsageError
from runner.data import indexed_source, sources


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def texts(path: Path) -> list[str]:
    return [document.text for document in sources.read(path)]


def fails(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        texts(path)
    return caught.value


ALPACA = [
    {"instruction": "Add.", "input": "1 2", "output": "3"},
    {"instruction": "说你好。", "input": "", "output": "你好"},
]
SHAREGPT = [
    {
        "system": "Be kind.",
        "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
    }
]


def test_txt_is_one_document_without_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbf" + "第一行\nsecond\n".encode())
    assert texts(path) == ["第一行\nsecond\n"]


def test_jsonl_takes_a_record_a_line_and_skips_blank_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "one"}\n\n{"text": "二", "id": 3}\r\n{"text": ""}')
    assert texts(path) == ["one", "二"]


def test_alpaca_and_its_trained_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps(ALPACA))
    first, second = sources.read(path)
    assert first.text == "Add.\n1 2\n3\n"
    assert second.text == "说你好。\n你好\n"
    assert [part.trained for part in first.parts] == [False, False, True]


def test_sharegpt_and_openai_turns(tmp_path: Path) -> None:
    (only,) = sources.read(write(tmp_path / "a.json", json.dumps(SHAREGPT)))
    assert only.text == "system: Be kind.\nhuman: Hi\ngpt: Hello\n"
    assert [part.text for part in only.parts if part.trained] == ["Hello\n"]
    body = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}
    (only,) = sources.read(write(tmp_path / "b.jsonl", json.dumps(body)))
    assert [part.text for part in only.parts if part.trained] == ["Yo\n"]


def test_json_of_one_object_per_line_is_taken(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "a.json", '{"text": "a"}\n{"text": "b"}\n')) == ["a", "b"]


def test_an_object_around_the_list_is_told_what_is_expected(tmp_path: Path) -> None:
    error = fails(write(tmp_path / "a.json", '{\n "data": [\n  {"text": "a"}\n ]\n}\n'))
    assert error.expected == "a JSON list of records"
    assert "the list itself" in str(error.hint)


def test_json_of_one_record_on_several_lines_is_taken(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "a.json", '{\n "text": "a"\n}\n')) == ["a"]


def test_an_escaped_pair_of_surrogates_is_one_character(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "\\ud83d\\ude00"}\n')
    assert texts(path) == ["\U0001f600"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "sub" / "a.jsonl"
    write(tmp_path / "sub" / "b.txt", "fine")
    os.mkfifo(pipe)
    for path in (pipe, pipe.parent):
        error = fails(path)
        assert (error.what, error.where) == ("the data is a pipe", str(pipe))
        assert "regular file" in str(error.expected)
    assert fails(Path("/dev/zero")).what == "the data is a device"
    pipe.unlink()
    pipe.symlink_to(tmp_path / "absent")
    assert "No such file" in fails(pipe.parent).what
    pipe.unlink()
    pipe.symlink_to(write(tmp_path / "real.jsonl", '{"text": "linked"}'))
    assert texts(pipe.parent) == ["linked", "fine"]


@pytest.mark.torch
def test_parquet_column_text_of_another_type(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    for kind, values in {"int64": [1], "binary": [b"x"], "list<element: string>": [["x"]]}.items():
        parquet.write_table(pyarrow.table({"text": values, "url": ["u"]}), path)
        assert fails(path).what == f"column text holds {kind}"
        assert "string" in str(fails(path).expected)
    numbers = pyarrow.array([1, 2, 1]).dictionary_encode()
    parquet.write_table(pyarrow.table({"text": numbers}), path)
    assert "int64" in fails(path).what
    words = pyarrow.array(["x", None, "y", "x"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"text": words}), path)
    assert texts(path) == ["x", "y", "x"]


@pytest.mark.torch
def test_parquet_column_text_or_the_only_string_column(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    one = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["x", None, "y"], "url": ["u", "v", "w"]}), one)
    two = tmp_path / "b.parquet"
    parquet.write_table(pyarrow.table({"body": ["z"], "n": [1]}), two)
    assert texts(one) == ["x", "y"]
    assert texts(two) == ["z"]
    assert texts(tmp_path) == ["x", "y", "z"]


@pytest.mark.torch
def test_parquet_without_text_or_broken(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"a": ["x"], "b": ["y"]}), path)
    error = fails(path)
    assert "a, b" in error.what
    assert "text" in str(error.expected)
    assert "cannot read the parquet" in fails(write(tmp_path / "b.parquet", b"PAR1 no")).what


def test_folder_reads_all_files_in_order(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "bee")
    write(tmp_path / "a" / "x.jsonl", '{"text": "ex"}\n')
    write(tmp_path / "dataset_info.json", "{}")
    write(tmp_path / "README.md", "no data")
    write(tmp_path / ".cache" / "c.txt", "hidden")
    assert texts(tmp_path) == ["ex", "bee"]


def test_reading_is_lazy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "one"}\nnot json\n')
    assert next(iter(sources.read(path))).text == "one"


@pytest.mark.parametrize(
    ("name", "content", "line", "what"),
    [
        ("a.txt", "fine\nbad \xff".encode("latin-1"), 2, "0xff is not UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xb0\xa1"}\n', 2, "0xb0 is not UTF-8"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n', 2, "not JSON"),
        ("a.jsonl", '{"text": "a"}\n\n{"content": "b"}\n', 3, "keys content"),
        ("a.jsonl", '"only a string"\n', 1, "found str"),
        ("a.jsonl", '{"text": 3}\n', 1, "text is int"),
        ("a.json", '[{"text": "a"},\n {"text": "b"},\n {"txt": "c"}]', 3, "keys txt"),
        ("a.json", '[{"text": "a"},\n {"text" "b"}]', 2, "not JSON"),
        ("a.json", "3", 1, "found int"),
        ("a.json", '[\n{"instruction": "a", "output": 3}]', 2, "output is int"),
        ("a.json", '[{"conversations": []}]', 1, "not a list of turns"),
        ("a.json", '[{"conversations": [{"from": "gpt"}]}]', 1, "turn 1"),
        ("a.json", '[{"conversations": [{"from": "me", "value": ""}]}]', 1, "is by 'me'"),
        ("a.json", '[\n{"conversations": [{"from": ["gpt"], "value": ""}]}]', 2, "is by ['gpt']"),
        ("a.jsonl", '{"text": "a"}\n{"text": "\\ud83d"}\n', 2, "surrogate pair, \\ud83d"),
        ("a.json", '[{"text": "a"},\n{"instruction": "b", "output": "\\udc00"}]', 2, "\\udc00"),
        ("a.jsonl", '{"text": "a"}\n' + "[" * 100_000 + "\n", 2, "nested too deeply"),
        ("a.json", '[{"text": "[[["},\n' + '{"a":' * 100_000, 2, "nested too deeply"),
        ("a.json", '{"text":\n' + "[" * 100_000, 2, "nested too deeply"),
        ("a.jsonl", '{"text": "a"}\n{"n": -' + "9" * 6000 + "}", 2, "integer of 6000 digits"),
        ("a.json", f'[{{"text": "{"1" * 7000}"}},\n{{"n": {"9" * 6000}}}]', 2, "of 6000 digits"),
        ("a.json", '\n{\n "data": [\n  {"text": "a"}\n ]\n}\n', 2, "dict with keys data"),
        ("a.json", '{"data": [{"text": "a"}]}', 1, "dict with keys data"),
        ("a.json", '{"text": "a"}\n{"text" "b"}\n', 2, "not JSON"),
        ("a.json", '{\n "text": "a",\n}\n', 3, "not JSON"),
    ],
)
def test_bad_input_is_one_clear_error(
    name: str, content: str | bytes, line: int, what: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    error = fails(path)
    assert error.where == f"{path}:{line}"
    assert what in error.what
    assert error.expected


def test_no_text_at_all(tmp_path: Path) -> None:
    assert "no text" in fails(write(tmp_path / "a.txt", " \n")).what
    assert "no text" in fails(write(tmp_path / "a.json", "[]")).what
    assert "no text" in fails(write(tmp_path / "a.jsonl", "")).what
    assert "no such" in fails(tmp_path / "absent.txt").what
    assert "cannot tell" in fails(write(tmp_path / "a.csv", "x")).what
    assert "no data" in fails(write(tmp_path / "sub" / "a.csv", "x").parent).what


def test_real_samples_of_public_data_sets(shared: Path) -> None:
    counts = {}
    for path in sorted((shared / "data").glob("*.json*")):
        found = texts(path)
        counts[path.name] = len(found)
        assert all(found)
    if not counts:
        pytest.skip("no public data samples here")
    assert min(counts.values()) > 10


@pytest.mark.parametrize("value", ['"\\ud83d"', '["a", "\\ud83d"]'])
def test_half_a_surrogate_pair_is_refused_for_indexed_data_too(value: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "a"}\n{"text": ' + value + "}\n")
    with pytest.raises(UsageError, match="surrogate") as caught:
        list(indexed_source.read(path, "text", "file"))
    assert caught.value.where == f"{path}:2"
