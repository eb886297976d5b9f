"""Writing record files, and reading them back with precise complaints."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from certify.errors import UsageError
from certify.records.kinds import KINDS, SCHEMA, Event, Header, Record, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

R = TypeVar("R")


def rank_file(folder: Path, rank: int, stream: str = "rank") -> Path:
    """Where a rank writes. stream: ``rank``, or ``control-NAME`` for a negative control."""
    return folder / "records" / f"{stream}-{rank:05d}.jsonl"


class Writer:
    """Appends records to one file, one flushed line each. Not shared between processes."""

    def __init__(self, path: Path, header: Header) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        is_cut = _ends_in_the_middle(path)
        self._file: TextIO = path.open("a", encoding="utf-8")
        if is_cut:
            # A process before this one was killed in the middle of a line.
            self._file.write("\n")
        self.write(header)

    def write(self, record: Record) -> None:
        """Append one record. Raises OSError when the disk is full: the run must stop then."""
        body = {"kind": record.kind, **dataclasses.asdict(record)}
        # NaN and Infinity stay visible: a reader that cannot take them must not read them as 0.
        self._file.write(json.dumps(body, ensure_ascii=False, allow_nan=True) + "\n")
        self._file.flush()

    def event(self, name: str, step: int, **detail: Any) -> None:
        """Append an `Event` stamped with the wall clock."""
        self.write(Event(name=name, step=step, unix_s=time.time(), detail=detail))

    def close(self) -> None:
        """Flush to the disk and close."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


def _ends_in_the_middle(path: Path) -> bool:
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


@dataclass(frozen=True)
class RecordFile:
    """One file read back. truncated: the last line was cut off by a killed writer."""

    path: Path
    header: Header
    records: tuple[Record, ...]
    truncated: bool

    def of(self, kind: type[R]) -> list[R]:
        """All records of one kind, in file order."""
        return [record for record in self.records if isinstance(record, kind)]

    def last(self, kind: type[R]) -> R | None:
        """The last record of one kind, or None."""
        found = self.of(kind)
        return found[-1] if found else None

    def steps(self) -> dict[int, Step]:
        """step -> record; where a restart repeated a step, the last one written counts."""
        return {record.step: record for record in self.of(Step)}


def _malformed(path: Path, line: int, what: str) -> UsageError:
    return UsageError(
        f"malformed record: {what}",
        where=f"{path}:{line}",
        expected=f"one JSON object per line as in {SCHEMA}",
        hint="the file was changed or is not a record file; run the phase again",
    )


def _parse(path: Path, number: int, body: object) -> Record:
    if not isinstance(body, dict):
        raise _malformed(path, number, "not a JSON object")
    kind = body.pop("kind", None)
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise _malformed(path, number, f"unknown kind {kind!r}")
    names = {f.name for f in dataclasses.fields(cls)}
    required = {
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if unknown := sorted(set(body) - names):
        raise _malformed(path, number, f"{kind} has no field {unknown[0]!r}")
    if missing := sorted(required - set(body)):
        raise _malformed(path, number, f"{kind} lacks field {missing[0]!r}")
    for f in dataclasses.fields(cls):
        if f.name in body and not _fits(body[f.name], str(f.type)):
            raise _malformed(path, number, f"{kind}.{f.name} is {body[f.name]!r}, not {f.type}")
    record: Record = cls(**body)
    return record


_SIMPLE: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "float | None": (int, float, type(None)),
    "str | None": (str, type(None)),
}


def _fits(value: object, annotation: str) -> bool:
    """Whether a JSON value has the annotated shape (containers are checked at their top)."""
    if annotation in _SIMPLE:
        if isinstance(value, bool) and annotation != "bool":
            return False
        return isinstance(value, _SIMPLE[annotation])
    if annotation.startswith("dict["):
        return isinstance(value, dict)
    if annotation.startswith("list["):
        return isinstance(value, list)
    return True


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """(line number, text, whether it ended in a newline)."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            yield number, raw.rstrip(b"\r\n"), raw.endswith(b"\n")


_START = b'{"kind": '


def _may_be_cut(raw: bytes) -> bool:
    """Whether a line is the beginning of one that `Writer` writes: any record, cut anywhere."""
    return raw.startswith(_START) or _START.startswith(raw)


def read_file(path: Path) -> RecordFile:
    """Read one record file.

    A truncated last line is left out and reported by `RecordFile.truncated`. Several headers
    (elastic restarts append to the file) are allowed; `header` is the last one.
    Raises UsageError naming file and line for anything else malformed, and for a missing file.
    """
    records: list[Record] = []
    truncated, cut = False, (0, False)
    try:
        for number, raw, complete in _lines(path):
            was_truncated, truncated = truncated, False
            try:
                body = json.loads(raw)
            except (ValueError, RecursionError):
                if was_truncated or not _may_be_cut(raw):
                    raise _malformed(path, number, "not JSON") from None
                cut, truncated = (number, complete), True
                continue
            is_header = isinstance(body, dict) and body.get("kind") == Header.kind
            if was_truncated and not is_header:
                # After a cut line goes on only a restart, and that with its own header.
                raise _malformed(path, cut[0], "not JSON")
            records.append(_parse(path, number, body))
        if truncated and cut[1]:
            raise _malformed(path, cut[0], "not JSON")
    except OSError as error:
        raise UsageError(
            f"cannot read records: {error.strerror}",
            where=str(path),
            expected="a record file written by a run",
        ) from None
    headers = [record for record in records if isinstance(record, Header)]
    if not headers or not isinstance(records[0], Header):
        raise _malformed(path, 1, "the first record is not a header")
    for header in headers:
        if header.schema != SCHEMA:
            raise _malformed(path, 1, f"schema {header.schema!r}, this version reads {SCHEMA!r}")
    return RecordFile(path, headers[-1], tuple(records), truncated)


def read_run(folder: Path, stream: str = "rank") -> list[RecordFile]:
    """All rank files of one run folder, by rank. An empty list when it has none."""
    found = sorted((folder / "records").glob(f"{stream}-[0-9]*.jsonl"))
    return [read_file(path) for path in found]


def control_streams(folder: Path) -> list[str]:
    """Names of the negative-control streams in a run folder."""
    found = {path.name.rsplit("-", 1)[0] for path in (folder / "records").glob("control-*.jsonl")}
    return sorted(found)
