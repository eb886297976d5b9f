"""HTML tables of components, as documents and web pages leave them in a pasted text."""

from __future__ import annotations

from certify.environment.report.block import Block, Format
from certify.environment.report.component_tables import above_asks, read_rows
from certify.environment.report.free_text import lively

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_MOST_LINES, _MOST_CHARS, _MOST_IN_VAIN = 400, 60_000, 10


def _starts(line: str) -> bool:
    return "<" in line and line.lstrip()[:6].lower().startswith(("<table", "<tr"))


def _read(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    place = f"table < {block.name}"
    if block.start < out.in_vain.get(place, 0):
        return None
    at = block.start
    last = min(len(block.lines), block.start + _MOST_LINES)
    while at < last and "</table" not in block.lines[at].lower():
        at += 1
    block.end = min(at + 1, len(block.lines))
    source = "\n".join(block.lines[block.start : block.end])
    if len(source) > _MOST_CHARS or not lively(source.lower()):
        out.in_vain[place] = block.end
        return None
    # Only where a text holds HTML: the parser is dear to load.
    from matrices.importers.tables import html_rows

    grid, _ = html_rows(source)
    rows = [(block.start, [" ".join(cell.split()) for cell in row]) for row in grid if any(row)]
    result = read_rows(rows, block, out, above_asks(block.lines, block.start)) if rows else None
    if result is None:
        tries = out.in_vain["HTML tables"] = out.in_vain.get("HTML tables", 0) + 1
        out.in_vain[place] = block.end if tries < _MOST_IN_VAIN else len(block.lines)
    return result


HTML = Format(_starts, _read)
