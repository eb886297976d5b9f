"""Reads a user's text: .txt, .jsonl, .json (Alpaca, ShareGPT), .parquet, or folders of them.

Documents come one by one, so that a large file is read only as far as a run needs it. A document
is a sequence of parts, each marked as trained on or not: pretraining takes all of them, supervised
fine-tuning only the answers.
"""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from runner.data.forms import FORMS, RECORD, Document, Part, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIXES = (".txt", ".jsonl", ".json", ".parquet")
NOT_DATA = frozenset({"dataset_info.json", "dataset_infos.json", "state.json"})
ONE_A_LINE = "one JSON object per line"
LIST = "a JSON list of records, or one JSON object per line"


def read(path: Path) -> Iterator[Document]:
    """The documents of a file or folder, in the order of names and lines; blank ones left out.

    Raises UsageError, naming file and line, for input that cannot be used, and when there is no
    text at all.
    """
    files = data_files(path)
    empty = True
    for file in files:
        for document in _READERS[file.suffix.lower()](file):
            if document.text.strip():
                empty = False
                yield document
    if empty:
        raise UsageError(
            "the data holds no text", where=str(path), expected="at least one document"
        )


def data_files(path: Path) -> list[Path]:
    """The file, or the data files of a folder by name. Raises UsageError when there are none."""
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix.lower() in SUFFIXES
            and not file.is_dir()
            and file.name not in NOT_DATA
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
        for file in files:
            _require_regular(file)
        if files:
            return files
        raise UsageError(
            "the folder holds no data", where=str(path), expected=f"files {', '.join(SUFFIXES)}"
        )
    if not path.exists():
        raise UsageError("there is no such data file or folder", where=str(path))
    _require_regular(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"cannot tell what {path.suffix or 'a file without suffix'} holds",
            where=str(path),
            expected=f"one of {', '.join(SUFFIXES)}, or a folder of such files",
        )
    return [path]


def _require_regular(file: Path) -> None:
    """Data is read more than once and to its end, which only a regular file allows.

    Raises UsageError for anything else; nothing is opened, since a pipe would wait for a writer.
    """
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise UsageError(f"cannot read the data: {error.strerror}", where=str(file)) from None
    if stat.S_ISREG(mode):
        return
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    kind = next((name for is_kind, name in kinds if is_kind(mode)), "a device")
    raise UsageError(
        f"the data is {kind}",
        where=str(file),
        expected=f"a regular file ({', '.join(SUFFIXES)}) or a folder of such files",
        hint="write the data to a file first",
    )


def _text(file: Path) -> str:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the data: {error.strerror}", where=str(file)) from None
    return decode(raw, file, 1)


def decode(raw: bytes, file: Path, line: int) -> str:
    """UTF-8 text of bytes that start at a line, without a byte-order mark."""
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            where=f"{file}:{line + raw[: error.start].count(10)}",
            expected="UTF-8 text",
            hint=f"iconv -f GB18030 -t UTF-8 {file.name} > utf8-{file.name}  (if it is Chinese)",
        ) from None


def _read_txt(file: Path) -> Iterator[Document]:
    yield Document((Part(_text(file)),))


def _read_jsonl(file: Path) -> Iterator[Document]:
    try:
        with file.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                line = decode(raw, file, number)
                if line.strip():
                    where = f"{file}:{number}"
                    yield record(parse(line.strip(), file, number, ONE_A_LINE), where)
    except OSError as error:
        raise UsageError(f"cannot read the data: {error.strerror}", where=str(file)) from None


def parse(text: str, file: Path, first_line: int, expected: str | None = None) -> Any:
    """The JSON value of text that starts at a line. Raises UsageError naming file and line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"not JSON: {error.msg} (column {error.colno})",
            where=f"{file}:{first_line + error.lineno - 1}",
            expected=expected or (ONE_A_LINE if file.suffix == ".jsonl" else LIST),
        ) from None
    except RecursionError:
        what, at = "the JSON is nested too deeply", _deepest(text)
    except ValueError:
        # Python converts no integer of thousands of digits.
        length, at = _longest_integer(text)
        what = f"the JSON holds an integer of {length} digits"
    line = first_line + text.count("\n", 0, at)
    raise UsageError(what, where=f"{file}:{line}", expected=RECORD)


_STRING = r'"(?:[^"\\]|\\.)*"'


def _deepest(text: str) -> int:
    """Where the deepest value of a JSON text begins."""
    depth = deepest = at = 0
    for found in re.finditer(_STRING + r"|[\[\]{}]", text, re.DOTALL):
        if found.group() in ("[", "{"):
            depth += 1
            if depth > deepest:
                deepest, at = depth, found.start()
        elif found.group() in ("]", "}"):
            depth -= 1
    return at


def _longest_integer(text: str) -> tuple[int, int]:
    """(digits, place) of the longest integer of a JSON text."""
    numbers = re.finditer(_STRING + r"|-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", text, re.DOTALL)
    integers = [n for n in numbers if n.group().lstrip("-").isdigit()]
    longest = max(integers, key=lambda n: len(n.group()))
    return len(longest.group().lstrip("-")), longest.start()


def _read_json(file: Path) -> Iterator[Document]:
    """A list of records; one record, or one a line, under the name .json is taken as well."""
    text = _text(file)
    if not text.strip():
        return
    body = _first_value(text, file)
    if body is _MORE:
        yield from _read_jsonl(file)
    elif isinstance(body, list):
        for line, item in zip(item_lines(text), body, strict=True):
            yield record(item, f"{file}:{line}")
    elif isinstance(body, dict) and ("text" in body or any(set(f) <= set(body) for f in FORMS)):
        yield record(body, f"{file}:{_first_line(text)}")
    else:
        keys = f" with keys {', '.join(sorted(body)) or '(none)'}" if isinstance(body, dict) else ""
        raise UsageError(
            f"found {type(body).__name__}{keys}",
            where=f"{file}:{_first_line(text)}",
            expected="a JSON list of records",
            hint="write the list itself, [{...}, ...], or one object per line" if keys else None,
        )


_MORE = object()


def _first_value(text: str, file: Path) -> Any:
    """The value of a JSON text; _MORE where an object is followed by something else."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            if error.msg == "Extra data":
                return _MORE
        except (RecursionError, ValueError):
            pass
    return parse(text, file, 1, LIST)


def _first_line(text: str) -> int:
    return 1 + text.count("\n", 0, len(text) - len(text.lstrip()))


def item_lines(text: str) -> Iterator[int]:
    """The line on which each item of a valid JSON list begins."""
    decoder = json.JSONDecoder()
    at, counted_to, line = text.index("[") + 1, 0, 1
    while True:
        while text[at] in " \t\r\n,":
            at += 1
        if text[at] == "]":
            return
        line += text.count("\n", counted_to, at)
        counted_to = at
        yield line
        _, at = decoder.raw_decode(text, at)


def _read_parquet(file: Path) -> Iterator[Document]:
    """Column ``text``, else the only column of strings; null values are left out."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            column = _text_column(table.schema_arrow, file)
            for batch in table.iter_batches(batch_size=1024, columns=[column]):
                for value in batch.column(0).to_pylist():
                    if value is not None:
                        yield Document((Part(value),))
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        first = (str(error).strip().splitlines() or ["unreadable"])[0]
        raise UsageError(
            f"cannot read the parquet file: {first}", where=str(file), expected="a parquet file"
        ) from None


def _text_column(schema: Any, file: Path) -> str:
    strings = [field.name for field in schema if _is_text(field.type)]
    if "text" in strings:
        return "text"
    if "text" in schema.names:
        raise UsageError(
            f"column text holds {schema.field('text').type}",
            where=str(file),
            expected="a column of strings (string, large_string, or a dictionary of them)",
        )
    if len(strings) == 1:
        return str(strings[0])
    raise UsageError(
        f"no column of text among {', '.join(schema.names) or '(no columns)'}",
        where=str(file),
        expected="a string column named text, or exactly one string column",
    )


def _is_text(kind: Any) -> bool:
    import pyarrow

    types = pyarrow.types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    views = getattr(types, "is_string_view", None)  # since pyarrow 16
    return bool(types.is_string(kind) or types.is_large_string(kind) or (views and views(kind)))


_READERS = {
    ".txt": _read_txt,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}
