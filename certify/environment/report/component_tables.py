"""Tables of components: Markdown with or without outer pipes, box-drawn, tabs or commas.

One row a component (``| torch | 2.9.1 |``), several pairs in a row, or one column a component
(``| torch | CANN |`` over ``| 2.9.1 | 8.5.0 |``). A column or a heading that speaks of what is
required makes statements of it; several rows under component columns say what exists, not what
is installed, and so does one row that states ranges or that a document is quoted for.
"""

from __future__ import annotations

import re

from certify.environment.report import free_text
from certify.environment.report.block import Block, Format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_LONGEST, _MOST_CELLS, _MOST_ROWS, _BACK = 600, 24, 400, 60
_LINK = re.compile(r"\[([^\]]{1,80})\]\([^)]{0,300}\)")
# "ver" only as a word of its own: a driver is none.
_SUFFIX = re.compile(r"(?:[\s_]*(?:versions?|版本号?)|\sver\.?)$", re.I)
_PREFIX = re.compile(r"^(?:huawei|ascend|昇腾|npu)[ _-]?", re.I)
_BRACKETS = re.compile(r"\([^)]{0,80}\)")
_VALUE = re.compile(
    r"^(?:[a-z_ -]{0,24}[ :=]{1,3})?[=<>!~^]{0,2} ?v?"
    r"(\d{1,4}\.\d[\w.+!-]{0,60}|[\d.]{1,12}(?:rc\d)?_core_r[\d.]{1,8}|core_[rv][\d.]{1,8}"
    r"|master|main)(?![\w/:])(?P<rest>.{0,120})$",
    re.I,
)
_RULE_ROW = re.compile(r"^[\s|+:=_-]{3,}$")
_NAME_HEADER = re.compile(
    r"package|component|software|name|item|library|module|dependency|组件|软件|名称|依赖|项目|模块"
    r"|包名?|环境|类别|部件",
    re.I,
)
_VERSION_HEADER = re.compile(
    r"version|installed|current|actual|value|版本|已安装|安装|当前|实际|现有|本机", re.I
)
_IN_USE = re.compile(r"installed|current|actual|in use|已安装|当前|实际|现有|本机", re.I)
_OTHER_HEADER = re.compile(
    r"latest|newest|wanted|target|available|最新|目标|可用|最低|最高|max|min|release date", re.I
)

_OF_PYTHON = re.compile(r"python", re.I)
_OFFERED = re.compile(
    r"\bsupport|\bmatrix\b|\bcompatib|\bavailable\b|\btarget\b|\bofficial|\brelease notes?\b"
    r"|\baccording to\b|目标|可用|配套|版本说明|发布说明|根据",
    re.I,
)
# Heads that only tables of releases have, and cells that state more than one version can be.
_OF_RELEASES = re.compile(
    r"\bstable\b|\bbranch\b|\blatest\b|\bmaintenance\b|\blifecycle\b|\brelease (?:date|time)\b"
    r"|分支|发布(?:时间|日期)|维护|商用|商发",
    re.I,
)
_RANGE = re.compile(
    r"[<>]=?\s?v?\d|\d\.[xX*](?![\w.])|\dRC[xX]|\d\s?(?:,|;|~|\bor\b|\band\b|\bto\b|或|至|到|和)\s?"
    r"(?:[a-z]{2,10}\s?)?v?\d+\.\d|\bunder development\b|在研|商用|\bcommercial\b",
    re.I,
)


def _cells(line: str, mark: str) -> list[str]:
    text = line.strip(" \n")
    if mark == "|":
        text = text.removeprefix("|").removesuffix("|")
    return [_plain(cell) for cell in text.split(mark)]


def _plain(cell: str) -> str:
    """A cell without Markdown's emphasis, code marks and links."""
    if "](" in cell:
        cell = _LINK.sub(r"\1", cell)
    if "<" in cell:
        cell = free_text.BREAK.sub(" ", cell)
    return cell.strip(" \t`*\"'").strip()


def _name(cell: str) -> str | None:
    """The spelling of a component that a cell is, None for any other cell."""
    if not 2 <= len(cell) <= 48 or cell[0].isdigit():
        return None
    word = _SUFFIX.sub("", _BRACKETS.sub("", cell).strip()).lower()
    for spelled in (word, _PREFIX.sub("", word)):
        if spelled and free_text.component_named(spelled):
            return spelled
    return None


def _value(cell: str) -> str | None:
    """The version that a cell is."""
    match = _VALUE.match(cell) if 3 <= len(cell) <= 200 else None
    return match.group(1) if match else None


def _mark_of(line: str) -> str | None:
    return "|" if "|" in line else "\t" if "\t" in line else "," if "," in line else None


def _worth(line: str, mark: str) -> bool:
    """Whether a line can open a table: a component alone in a cell, or a heading for versions."""
    if len(line) > _LONGEST:
        return False
    cells = _cells(line, mark)
    if not 2 <= len(cells) <= _MOST_CELLS:
        return False
    return any(map(_name, cells)) or _is_header(cells)


def _is_header(cells: list[str]) -> bool:
    short = [cell for cell in cells if len(cell) <= 40]
    return any(map(_NAME_HEADER.search, short)) and any(map(_VERSION_HEADER.search, short))


def _read(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    mark = _mark_of(block.lines[block.start])
    place = f"table {mark} {block.name}"
    if mark is None or block.start < out.in_vain.get(place, 0):
        return None

    def belongs(line: str) -> bool:
        return len(line) <= _LONGEST and (mark in line or bool(_RULE_ROW.match(line)))

    first = block.start
    while first > max(0, block.start - _BACK) and belongs(block.lines[first - 1]):
        first -= 1
    block.take_while(belongs, _MOST_ROWS)
    rows = [
        (at, _cells(block.lines[at], mark))
        for at in range(first, block.end)
        if not _RULE_ROW.match(block.lines[at])
    ]
    result = read_rows(rows, block, out, above_asks(block.lines, first))
    if result is None:
        out.in_vain[place] = block.end
    return result


def read_rows(
    rows: list[tuple[int, list[str]]], block: Block, out: StackBuilder, asks: bool
) -> tuple[str, str] | None:
    """Take the rows of a table (line index, cells) into the builder.

    asks: the text above says that the table lists what would be needed. Returns the state and a
    note of the section, None when no row names a component.
    """
    table = _Table(block, out, asks)
    known = table.columns(rows) if _by_columns(rows) else table.rows(rows)
    if not known:
        return None
    return ("partial", table.note) if table.note else ("read", f"{known} components")


def _by_columns(rows: list[tuple[int, list[str]]]) -> bool:
    head = rows[0][1]
    named = sum(1 for cell in head if _name(cell))
    return len(rows) > 1 and named >= 2 and not any(map(_value, head)) and len(head) > 1


def above_asks(lines: list[str], first: int) -> bool:
    """Whether the line above the table says that it lists what would be needed."""
    for line in reversed(lines[max(0, first - 3) : first]):
        if line.strip():
            head = line[:400]
            return bool(free_text.NEEDED.search(head) or _OFFERED.search(head))
    return False


def _is_of_releases(head: list[str], cells: list[str]) -> bool:
    """Whether one row says which versions belong together, as documents do, and not what a machine
    has: its head is one of releases, or a cell states a range or alternatives."""
    if any(map(_OF_RELEASES.search, head)):
        return True
    return any(
        (_name(title) or _OF_PYTHON.search(title)) and _RANGE.search(cell)
        for title, cell in zip(head, cells, strict=True)
    )


class _Table:
    """Takes the rows of one table into the builder. note: what could not be decided."""

    def __init__(self, block: Block, out: StackBuilder, asks: bool) -> None:
        self.block, self.out, self.asks, self.note = block, out, asks, ""

    def columns(self, rows: list[tuple[int, list[str]]]) -> int:
        """One column a component: a single row of values is an installation."""
        head = rows[0][1]
        body = [(at, cells) for at, cells in rows[1:] if any(map(_value, cells))]
        if not body or any(len(cells) != len(head) for _, cells in body):
            return 0
        if len(body) > 1:
            self.note = "several rows of versions: which of them is installed is not said"
        quoted = len(body) == 1 and _is_of_releases(head, body[0][1])
        if quoted:
            self.note = "a row of a table of releases: what is installed is not said"
        known = 0
        for at, cells in body:
            for title, cell in zip(head, cells, strict=True):
                name, version = _name(title), _value(cell)
                if name and version:
                    self._add(name, cell, version, at, self.asks or len(body) > 1 or quoted)
                    known += 1
            if len(body) == 1 and not quoted:
                self._rest(at, cells)
        return known

    def rows(self, rows: list[tuple[int, list[str]]]) -> int:
        """One row a component, or pairs of a name and its version."""
        head = rows[0][1]
        headed = _is_header(head) or not any(map(_value, head))
        column, asked = self._chosen(head) if headed else (None, False)
        known = 0
        for at, cells in rows[1:] if headed else rows:
            found = 0
            for place, cell in enumerate(cells):
                name = _name(cell)
                if name is None:
                    continue
                value = self._version(cells, place, column)
                if value is not None:
                    self._add(name, value[0], value[1], at, self.asks or asked)
                    found += 1
            known += found
            if not found:
                self._rest(at, cells)
        return known

    def _chosen(self, head: list[str]) -> tuple[int | None, bool]:
        """The column of installed versions, and whether it speaks of a requirement."""
        titles = [(place, t) for place, t in enumerate(head) if t and place]
        for wanted in (_IN_USE, _VERSION_HEADER):
            for place, title in titles:
                other = _OTHER_HEADER.search(title) or free_text.NEEDED.search(title)
                if wanted.search(title) and not other:
                    return place, False
        for place, title in titles:
            if free_text.NEEDED.search(title) or _OTHER_HEADER.search(title):
                return place, True
        return None, False

    def _version(self, cells: list[str], place: int, column: int | None) -> tuple[str, str] | None:
        if column is not None and place < column < len(cells):
            version = _value(cells[column])
            return (cells[column], version) if version else None
        found: dict[str, str] = {}
        for cell in cells[place + 1 :]:
            if _name(cell):
                break
            version = _value(cell)
            if version:
                found.setdefault(version, cell)
        if len(found) > 1:
            self.note = "several versions in a row: which of them is installed is not said"
            return None
        return next(((cell, version) for version, cell in found.items()), None)

    def _add(self, name: str, cell: str, version: str, at: int, asked: bool) -> None:
        source = f"{self.block.name}:{at + 1}"
        clause = f"{name}: {cell}"
        if asked or free_text.NEEDED.search(cell):
            component = free_text.component_named(name) or name
            self.out.signal(
                "stated-requirement", clause, source, component=component, version=version
            )
        else:
            free_text.add_version(name, version, clause, source, self.out)

    def _rest(self, at: int, cells: list[str]) -> None:
        """A row of other things: system, machine, device."""
        if not self.asks:
            free_text.read_line(" | ".join(cells), f"{self.block.name}:{at + 1}", self.out)


def _starts_piped(line: str) -> bool:
    return "|" in line and _worth(line, "|")


def _starts_plain(line: str) -> bool:
    if "|" in line or not ("\t" in line or "," in line):
        return False
    return _worth(line, "\t" if "\t" in line else ",")


PIPED = Format(_starts_piped, _read)
SEPARATED = Format(_starts_plain, _read)
