"""Upstream's list of supported models (Markdown with HTML tables, Chinese or English) as rows."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from certify.errors import UsageError

if TYPE_CHECKING:
    from certify.recipes.rows import Row

# Column titles in the order of the published table.
_COLUMNS = ("model", "size", "script", "seq", "backend", "cluster", "version", "contributor",
            "status")  # fmt: skip
_REQUIRED = _COLUMNS[:6]
_LINKED = {"model": "model_link", "size": "weights", "script": "script_link",
           "version": "version_link"}  # fmt: skip
_TITLES = {
    "模型": "model", "下载链接": "size", "脚本位置": "script", "序列长度": "seq",
    "训练后端": "backend", "集群规模": "cluster", "支持版本": "version", "贡献方": "contributor",
    "认证": "status", "序列": "seq", "实现": "backend", "集群": "cluster",
    "model": "model", "download link": "size", "script location": "script", "script path": "script",
    "sequence length": "seq", "sequence": "seq", "training backend": "backend",
    "implementation": "backend", "cluster size": "cluster", "cluster": "cluster",
    "cluster scale": "cluster", "supported version": "version",
    "supported versions": "version", "version": "version", "contributor": "contributor",
    "contributed by": "contributor", "certification": "status", "certified": "status",
    "model name": "model", "download": "size", "script": "script", "scripts": "script",
}  # fmt: skip
_BACKENDS = {"legacy": "Legacy", "mcore": "Mcore", "fsdp2": "FSDP2"}
_MAX_ROWS = 5000
_MAX_SPAN = 200
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z]\w{0,20})(?P<rest>[^<>]{0,2000})>")
_SPAN = re.compile(r"""rowspan\s*=\s*["']?(\d{1,4})(?!\d)""", re.IGNORECASE)
_HREF = re.compile(r"""href\s*=\s*(["'])(.*?)\1""", re.IGNORECASE)


@dataclass(frozen=True)
class Cell:
    """One table cell: its text, first link and the rows it spans."""

    text: str
    link: str
    span: int
    line: int


@dataclass(frozen=True)
class ListedRow:
    """One row of a document; fields as in `rows.Row`, brackets around words taken off."""

    key: str
    line: int
    fields: dict[str, str]


@dataclass
class ListDocument:
    """All rows of a document and what is wrong with its tables (line, message)."""

    language: str
    rows: list[ListedRow] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)


class _Tables:
    """Collects tables as lists of rows of cells, tolerating tags that are not closed.

    Tags are found one by one, so that the time grows with the text, whatever it is; Python's own
    HTML parser takes time that grows with the square of unclosed tags.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.tables: list[list[list[Cell]]] = []
        self.row: list[Cell] | None = None
        self.text: list[str] | None = None
        self.link = ""
        self.span = 1
        self.line = 1
        self.total = 0
        # Lines of cells that stand outside any row: upstream forgets a <tr> now and then.
        self.loose: list[int] = []

    def feed(self, text: str) -> None:
        """Read a whole document."""
        at, line = 0, 1
        for found in _TAG.finditer(text):
            if self.text is not None:
                self.text.append(text[at : found.start()])
            line += text.count("\n", at, found.start())
            if found["close"]:
                self.end(found["name"].lower())
            else:
                self.start(found["name"].lower(), found["rest"], line)
            line += text.count("\n", found.start(), found.end())
            at = found.end()
        self.close_row()

    def start(self, tag: str, rest: str, line: int) -> None:
        if tag == "table":
            self.close_row()
            self.tables.append([])
        elif tag == "tr":
            self.close_row()
            self.row = []
        elif tag in ("td", "th"):
            self.close_cell()
            if self.row is None:
                self.row = []
                self.loose.append(line)
            span = _SPAN.search(rest)
            self.span = int(span.group(1)) if span else 1
            self.text, self.link, self.line = [], "", line
        elif tag == "a" and self.text is not None and not self.link:
            link = _HREF.search(rest)
            self.link = html.unescape(link.group(2)) if link else ""

    def end(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.close_cell()
        elif tag in ("tr", "table", "thead", "tbody"):
            self.close_row()

    def close_cell(self) -> None:
        if self.text is not None and self.row is not None:
            text = " ".join(html.unescape("".join(self.text)).split())
            self.row.append(Cell(text, self.link, self.span, self.line))
        self.text = None

    def close_row(self) -> None:
        self.close_cell()
        if self.row and self.tables:
            self.total += 1
            if self.total > _MAX_ROWS:
                raise UsageError(
                    "too many table rows", where=self.where, expected=f"at most {_MAX_ROWS}"
                )
            self.tables[-1].append(self.row)
        self.row = None


def _grid(table: list[list[Cell]]) -> list[list[Cell]]:
    """Rows with spanning cells repeated in every row that they cover."""
    pending: dict[int, tuple[int, Cell]] = {}
    grid = []
    for cells in table:
        row: list[Cell] = []
        waiting = list(cells)
        while waiting or len(row) in pending:
            column = len(row)
            if column in pending:
                left, cell = pending.pop(column)
                if left > 1:
                    pending[column] = (left - 1, cell)
                row.append(cell)
                continue
            cell = waiting.pop(0)
            if 1 < cell.span <= _MAX_SPAN:
                pending[column] = (cell.span - 1, cell)
            row.append(cell)
        grid.append(row)
    return grid


def _bare(text: str) -> str:
    return text.strip("【】[] ")


def row_key(model: str, size: str, seq: str, backend: str) -> str:
    """What identifies a row: the letters and digits of its id."""
    text = re.sub(r"(?<=\d)\.(?=\d)", "p", f"{model}{size}{seq}{backend}".lower())
    return re.sub(r"[^a-z0-9]", "", text)


def _fields(row: list[Cell], columns: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, cell in zip(columns, row, strict=True):
        fields[name] = _bare(cell.text) if name in ("contributor", "status") else cell.text
        if name in _LINKED:
            fields[_LINKED[name]] = cell.link
    fields["seq"] = fields["seq"].lower()
    if "status" in fields:
        fields["status"] = fields["status"].capitalize()
    fields["backend"] = _BACKENDS.get(fields["backend"].lower(), fields["backend"])
    return fields


def _wrong(fields: dict[str, str]) -> str | None:
    """What shows that a row's cells are not in their columns, None when nothing does."""
    if not re.fullmatch(r"\d+k", fields["seq"]):
        return f"sequence length is {fields['seq']!r}"
    if fields["backend"] not in _BACKENDS.values():
        return f"training backend is {fields['backend']!r}"
    if not re.fullmatch(r"\d+\s*x\s*\d+", fields["cluster"]):
        return f"cluster is {fields['cluster']!r}"
    if fields.get("status", "Pass") not in ("Pass", "Test"):
        return f"status is {fields['status']!r}"
    return None


def _read_table(table: list[list[Cell]], document: ListDocument) -> None:
    grid = _grid(table)
    if not grid:
        return
    columns = [_TITLES.get(cell.text.lower(), "") for cell in grid[0]]
    if not set(_REQUIRED) <= set(columns) or len(set(columns)) != len(columns) or "" in columns:
        return
    for row in grid[1:]:
        line = row[0].line if row else 0
        line = max((cell.line for cell in row), default=line)
        if len(row) != len(columns):
            message = f"the row has {len(row)} cells, the table {len(columns)} columns"
            document.problems.append((line, f"{message}: a row span is wrong"))
            continue
        fields = _fields(row, columns)
        wrong = _wrong(fields)
        if wrong:
            document.problems.append((line, f"{wrong}: a row span is wrong"))
            continue
        fields["cluster"] = fields["cluster"].replace(" ", "")
        key = row_key(*(fields[name] for name in ("model", "size", "seq", "backend")))
        document.rows.append(ListedRow(key, line, fields))


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            break
        # Line numbers of what follows stay what they are.
        kept += [text[at:start], "\n" * text.count("\n", start, end)]
        at = end + 3
    return "".join([*kept, text[at:]])


def read_list(text: str, where: str) -> ListDocument:
    """All rows of a document. Raises UsageError when no table has the published columns."""
    parser = _Tables(where)
    parser.feed(_without_comments(text))
    document = ListDocument("zh" if re.search(r"[\u4e00-\u9fff]", text) else "en")
    for table in parser.tables:
        _read_table(table, document)
    if document.rows:
        document.problems += [
            (line, "cells outside a row: <tr> is missing") for line in parser.loose
        ]
    if not document.rows and not document.problems:
        raise UsageError(
            "no table of supported models in it",
            where=where,
            expected="nine columns: " + ", ".join(_COLUMNS),
            hint="certify recipes import docs/zh/pytorch/models/supported_models.md",
        )
    return document


@dataclass(frozen=True)
class Change:
    """What differs between our list and a document: added, removed or changed rows."""

    kind: str
    key: str
    field: str = ""
    ours: str = ""
    theirs: str = ""
    line: int = 0


# Links may be relative in one document and absolute in the other: what they name counts.
_COMPARED = ("model", "size", "seq", "backend", "cluster", "version", "contributor", "status",
             "script")  # fmt: skip


def compare(ours: tuple[Row, ...], document: ListDocument) -> list[Change]:
    """What changed upstream since our list was read, row by row."""
    known = {row_key(row.model, row.size, row.seq, row.backend_published): row for row in ours}
    seen = set()
    changes = []
    for listed in document.rows:
        row = known.get(listed.key)
        if row is None:
            found = " ".join(listed.fields[name] for name in ("model", "size", "seq", "backend"))
            changes.append(Change("added", found, line=listed.line))
            continue
        seen.add(listed.key)
        for name in _COMPARED:
            mine = row.backend_published if name == "backend" else str(getattr(row, name))
            theirs = listed.fields.get(name)
            if theirs is not None and mine != theirs:
                changes.append(Change("changed", row.id, name, mine, theirs, listed.line))
    changes += [Change("removed", row.id) for key, row in known.items() if key not in seen]
    return changes
