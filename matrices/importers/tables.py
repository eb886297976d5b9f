"""Tables of a Markdown document: pipe tables and HTML tables, with the title above them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_TITLE = re.compile(r"\s*(?:#+\s*|\*\*)?((?:table|表)\s*\d+.*|.+)", re.IGNORECASE)
_RULE = re.compile(r"\s*\|?[\s:|-]+\|?\s*")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
# A table this large is no compatibility table.
_MAX_CELLS = 20_000


@dataclass(frozen=True)
class Table:
    """One table. title: the heading or caption above it; header and rows as plain text, a line
    break inside a cell kept as a newline; line: where it starts (from 1)."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int


def read_tables(text: str) -> list[Table]:
    """Every table of a document, in order."""
    lines = text.splitlines()
    tables = []
    title, number = "", 0
    while number < len(lines):
        line = lines[number]
        if "<table" in line.lower():
            end = _html_end(lines, number)
            table = _html_table("\n".join(lines[number:end]), title, number + 1)
            if table is not None:
                tables.append(table)
            number = end
        elif line.lstrip().startswith("|") and _is_rule(lines, number + 1):
            end = number
            while end < len(lines) and lines[end].lstrip().startswith("|"):
                end += 1
            tables.append(_pipe_table(lines[number:end], title, number + 1))
            number = end
        else:
            title = _title(line) or title
            number += 1
    return tables


def _is_rule(lines: list[str], number: int) -> bool:
    return number < len(lines) and "-" in lines[number] and bool(_RULE.fullmatch(lines[number]))


def _title(line: str) -> str:
    """Captions and headings only: running text is not the title of a table."""
    plain = line.strip()
    if not plain.startswith(("#", "**")) and not re.match(r"(?i)(table|表)\s*\d", plain):
        return ""
    found = _TITLE.fullmatch(plain)
    return plain_text(found[1]).strip("*# ") if found else ""


def plain_text(cell: str) -> str:
    """A cell without markup; breaks become newlines."""
    text = _TAG.sub("", _BREAK.sub("\n", cell)).replace("`", "").replace("**", "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("&nbsp;", " ")
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def _pipe_table(lines: list[str], title: str, number: int) -> Table:
    cells = [_pipe_cells(line) for line in lines]
    header, rows = cells[0], cells[2:]
    width = len(header)
    padded = [tuple((row + [""] * width)[:width]) for row in rows]
    return Table(title, tuple(header), tuple(padded), number)


def _pipe_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [plain_text(cell) for cell in re.split(r"(?<!\\)\|", inner)]


def _html_end(lines: list[str], start: int) -> int:
    for number in range(start, len(lines)):
        if "</table" in lines[number].lower():
            return number + 1
    return len(lines)


@dataclass
class _Cell:
    text: list[str] = field(default_factory=list)
    head: bool = False
    columns: int = 1
    rows: int = 1


class _Grid(HTMLParser):
    """Collects the rows of one table; spans are expanded afterwards."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[_Cell]] = []
        self._open: _Cell | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            values = dict(attrs)
            span = _span(values.get("colspan")), _span(values.get("rowspan"))
            self._open = _Cell([], tag == "th", *span)
            self.rows[-1].append(self._open)
        elif tag == "br" and self._open is not None:
            self._open.text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open.text.append(data.replace("\n", " "))


def _span(text: str | None) -> int:
    return min(int(text), 50) if text and text.isdigit() and int(text) > 0 else 1


def html_rows(source: str) -> tuple[list[list[str]], list[bool]]:
    """The rows of an HTML table with spans filled in, and for each whether all of it is a head;
    nothing for a table that is too large."""
    parser = _Grid()
    parser.feed(source)
    grid, heads = _expanded(parser.rows)
    return (grid, heads) if sum(map(len, grid)) <= _MAX_CELLS else ([], [])


def _html_table(source: str, title: str, number: int) -> Table | None:
    grid, heads = html_rows(source)
    if not grid:
        return None
    count = next((i for i, head in enumerate(heads) if not head), len(heads))
    # A table of properties has its heads down the first column, not across the top.
    count = max(count, 1)
    header = tuple(
        "\n".join(dict.fromkeys(row[column] for row in grid[:count] if row[column]))
        for column in range(len(grid[0]))
    )
    return Table(title, header, tuple(tuple(row) for row in grid[count:]), number)


def _expanded(rows: list[list[_Cell]]) -> tuple[list[list[str]], list[bool]]:
    """The grid with spans filled in, and for each row whether all of it is a head."""
    grid: list[dict[int, str]] = [{} for _ in rows]
    for number, row in enumerate(rows):
        column = 0
        for cell in row:
            while column in grid[number]:
                column += 1
            text = plain_text("".join(cell.text))
            for down in range(min(cell.rows, len(rows) - number)):
                for right in range(cell.columns):
                    grid[number + down][column + right] = text
            column += cell.columns
    width = max((max(row, default=-1) + 1 for row in grid), default=0)
    heads = [bool(row) and all(cell.head for cell in row) for row in rows]
    return [[row.get(column, "") for column in range(width)] for row in grid], heads
