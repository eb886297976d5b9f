"""The verdict as text: the table of gates, what is wrong under each, the overall verdict.

Works on the document of ``certify judge --json``, so that any stored verdict can be shown again.
Readable without colour; a narrow terminal gets the reasons below the numbers.
"""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEAD = ("gate", "verdict", "measured", "limit", "spare", "n")
_NARROWEST_REASON = 36
_MOST_FAULTS = 6
_NEAR_ONE = 0.99
_NARROWEST = 24
_FAULTS = ("violated", "undecided")


def render(document: Mapping[str, Any], width: int | None = None) -> str:
    """The table, the overall verdict and the claim. width: columns; default the terminal's."""
    columns = width or shutil.get_terminal_size((100, 24)).columns
    rows = [_row(gate) for gate in document["gates"]]
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    left = columns - sum(widths) - 2 * len(widths)
    if left >= _NARROWEST_REASON:
        lines = [f"{_line(_HEAD, widths)}  reason"]
        for gate, row in zip(document["gates"], rows, strict=True):
            lines += [*_beside(str(gate["reason"]), _line(row, widths), left)]
            lines += _fault_lines(gate, columns)
    else:
        lines = []
        for gate, row in zip(document["gates"], rows, strict=True):
            lines += [*_below(str(gate["reason"]), row, widths, columns)]
            lines += _fault_lines(gate, columns)
    return "\n".join([*(line.rstrip() for line in lines), "", *_closing(document, columns)])


def _row(gate: Mapping[str, Any]) -> tuple[str, ...]:
    unit = gate.get("unit", "")
    measured = number(gate["statistic"], unit)
    if gate.get("low") is not None:
        measured += f" [{number(gate['low'])}, {number(gate['high'])}]"
    limit = number(gate["margin"])
    if gate.get("low") is not None and gate["margin"] is not None:
        limit = f"+-{limit}"
    n = "" if gate["n"] is None else f"{gate['n']:,}"
    return (gate["gate"], gate["verdict"], measured, limit, _spare(gate), n)


def _spare(gate: Mapping[str, Any]) -> str:
    """How much of an upper limit is left unused, in percent."""
    margin, low, high = gate["margin"], gate.get("low"), gate.get("high")
    value = gate["statistic"]
    if gate["verdict"] != "PASS" or not _plain(margin) or not _plain(value) or not margin:
        return ""
    used: float = abs(value)
    if low is not None and high is not None:
        used = max(abs(low), abs(high))
    return f"{100 * (1 - used / margin):.0f}%" if used <= margin else ""


def _plain(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(value: Any, unit: str = "") -> str:
    """A measured value for people: three significant digits, counts in full, long texts cut."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if len(value) <= 16 else value[:12] + "..."
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        text = f"{int(value):,}"
    else:
        # Three digits would round a cosine or a share of 0.9996 to 1.
        text = f"{value:.6g}" if _NEAR_ONE < abs(value) < 1 else f"{value:.3g}"
    return f"{text} {unit}" if unit in ("s", "bytes", "tokens/s") else text


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))


def _beside(reason: str, start: str, left: int) -> list[str]:
    """A gate with its reason in the last column."""
    first, *more = textwrap.wrap(reason, left) or [""]
    return [f"{start}  {first}", *(" " * (len(start) + 2) + line for line in more)]


def _below(reason: str, row: Sequence[str], widths: Sequence[int], columns: int) -> list[str]:
    """A gate in a narrow terminal: numbers and reason below its name."""
    lines = [_line(row[:2], widths[:2])]
    named = [f"{name} {cell}" for name, cell in zip(_HEAD[2:], row[2:], strict=True) if cell]
    for text in (", ".join(named), reason):
        lines += textwrap.wrap(text, max(columns, _NARROWEST), **_indents("    "))
    return lines


def _fault_lines(gate: Mapping[str, Any], columns: int) -> list[str]:
    """Under a gate that did not pass: each check at fault, with its value and limit."""
    if gate["verdict"] not in ("FAIL", "INCONCLUSIVE"):
        return []
    faults = [check for check in gate["checks"] if check["outcome"] in _FAULTS]
    lines: list[str] = []
    for check in faults[:_MOST_FAULTS]:
        text = f"- {check['outcome']}: {check['name']}{_measured(check)}"
        lines += textwrap.wrap(text, max(columns, _NARROWEST), **_indents("    ", "      "))
    if len(faults) > _MOST_FAULTS:
        lines.append(f"    - and {len(faults) - _MOST_FAULTS} more (--json lists all)")
    return lines


def _measured(check: Mapping[str, Any]) -> str:
    if check.get("unit") == "departures" and check["value"]:
        return f", {number(check['value'])} found"
    value = "" if check["value"] is None else f" is {number(check['value'])}"
    return value + ("" if check["limit"] is None else f", limit {number(check['limit'])}")


def _indents(first: str, rest: str | None = None) -> dict[str, Any]:
    return {"initial_indent": first, "subsequent_indent": first if rest is None else rest}


def _closing(document: Mapping[str, Any], columns: int) -> list[str]:
    criteria, fault = document["criteria"], document.get("inject")
    lines = [
        f"verdict: {document['verdict']}",
        f"claim: {document['claim'] or _no_claim(fault, document['verdict'])}",
        f"criteria: {criteria['version']}, sha256 {criteria['sha256'][:16]}; "
        f"scale {document['scale']}, device {document['device']}",
    ]
    if fault:
        side = document.get("inject_side") or "candidate"
        lines.insert(1, f"seeded fault: {fault} ({side} side); no claim")
    again = document.get("attempts") or {}
    if again:
        started = ", ".join(f"{phase} {count}" for phase, count in sorted(again.items()))
        lines.append(f"started more than once (times): {started}")
    lines += [f"note: {note}" for note in document.get("notes") or []]
    return [part for line in lines for part in textwrap.wrap(line, max(columns, _NARROWEST))]


def _no_claim(fault: str | None, verdict: str) -> str:
    if fault:
        return "none; a seeded fault entitles to none"
    if verdict == "PASS":
        return "none; only a whole campaign entitles to one"
    return "none; only a PASS entitles to one"
