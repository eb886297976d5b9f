"""Reads the documents of an indexed dataset: every record as it stands, empty ones included.

Unlike `runner.data.sources`, which is for campaigns, a record is what stands under one key, a list
there is one document of several sequences, and an empty text stays an (empty) document: that is
what Megatron's tool makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from runner.data import forms, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One document: its texts, one a sequence; where: ``file:line``, or row of a parquet file.

    several: the record held a list. texts is None for a null, which is left out.
    """

    texts: tuple[str, ...] | None
    where: str
    several: bool = False


def read(path: Path, key: str, text_unit: str) -> Iterator[Entry]:
    """The documents of a file or folder, in the order of names and lines.

    key: key or column of the text; text_unit: ``file`` or ``line``, for .txt. Raises UsageError
    naming file and line for input that cannot be used.
    """
    for file in sources.data_files(path):
        suffix = file.suffix.lower()
        try:
            if suffix == ".parquet":
                yield from _parquet(file, key)
            elif suffix == ".txt":
                yield from _text(file, text_unit)
            else:
                yield from _json(file, key)
        except OSError as error:
            raise UsageError(f"cannot read the data: {error.strerror}", where=str(file)) from None


def _text(file: Path, unit: str) -> Iterator[Entry]:
    if unit == "file":
        yield Entry((sources.decode(file.read_bytes(), file, 1),), f"{file}:1")
        return
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            line = sources.decode(raw, file, number)
            yield Entry((line.removesuffix("\n").removesuffix("\r"),), f"{file}:{number}")


def _json(file: Path, key: str) -> Iterator[Entry]:
    """One object a line; a file that begins with ``[`` is one JSON list of objects."""
    with file.open("rb") as stream:
        start = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        if file.suffix.lower() == ".json" and start.startswith(b"["):
            yield from _json_list(file, key)
            return
        stream.seek(0)
        for number, raw in enumerate(stream, start=1):
            line = sources.decode(raw, file, number).strip()
            if line:
                body = sources.parse(line, file, number)
                yield _entry(body, key, f"{file}:{number}")


def _json_list(file: Path, key: str) -> Iterator[Entry]:
    text = sources.decode(file.read_bytes(), file, 1)
    body = sources.parse(text, file, 1)
    for line, item in zip(sources.item_lines(text), body, strict=True):
        yield _entry(item, key, f"{file}:{line}")


def _entry(body: Any, key: str, where: str) -> Entry:
    if not isinstance(body, dict):
        raise UsageError(f"found {type(body).__name__}", where=where, expected="a JSON object")
    if key not in body:
        raise UsageError(
            f"no key {key!r}: found {', '.join(sorted(body)) or '(none)'}",
            where=where,
            hint="name the key of the text with --json-key",
        )
    return _value(body[key], key, where)


def _value(value: Any, key: str, where: str) -> Entry:
    if value is None:
        return Entry(None, where)
    if isinstance(value, str):
        forms.check_text(value, where)
        return Entry((value,), where)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        forms.check_text("".join(value), where)
        return Entry(tuple(value), where, several=True)
    raise UsageError(
        f"{key!r} is {type(value).__name__}", where=where, expected="a string or list of strings"
    )


def _parquet(file: Path, key: str) -> Iterator[Entry]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            if key not in names:
                raise UsageError(
                    f"no column {key!r}: found {', '.join(names) or '(none)'}",
                    where=str(file),
                    hint="name the column of the text with --json-key",
                )
            row = 0
            for batch in table.iter_batches(batch_size=1024, columns=[key]):
                for value in batch.column(0).to_pylist():
                    row += 1
                    yield _value(value, key, f"{file}: row {row}")
    except (ValueError, pyarrow.ArrowException) as error:
        first = (str(error).strip().splitlines() or ["unreadable"])[0]
        raise UsageError(
            f"cannot read the parquet file: {first}", where=str(file), expected="a parquet file"
        ) from None
