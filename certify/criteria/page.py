"""The tables of docs/criteria.md, generated from the criteria so that page and file agree.

``python -m certify.criteria.page FILE`` puts them between the two markers of FILE.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from certify.criteria.load import ANY, SCALES, load_criteria

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certify.criteria.load import Criteria, Gate, Threshold

BEGIN = "<!-- generated from the criteria: begin -->"
END = "<!-- generated from the criteria: end -->"


def tables(criteria: Criteria) -> str:
    """Scales, claims, and for every gate its rule, thresholds, lists and what a FAIL means."""
    parts = [
        f"Version {criteria.version}, sha256 `{criteria.sha256}`.",
        "### Required gates\n\n" + _requirements(criteria),
        "### What a pass says\n\n" + _claims(criteria),
        *(_gate(criteria, gate) for gate in criteria.gates),
    ]
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _requirements(criteria: Criteria) -> str:
    rows = []
    for gate in criteria.gates:
        cells = [f"[{gate.id}](#{gate.id})"]
        for scale in SCALES:
            found = [row for row in gate.requirement if row.scale == scale]
            cells.append("; ".join(_requirement(row.stage, row.status) for row in found))
        rows.append(cells)
    return _table(("gate", *SCALES), rows)


def _requirement(stage: str, status: str) -> str:
    return status if stage == ANY else f"{stage}: {status}"


def _claims(criteria: Criteria) -> str:
    return _table(
        ("scale", "says exactly", "and"),
        [(c.scale, c.says.replace("{device}", "*device*"), c.limits) for c in criteria.claims],
    )


def _gate(criteria: Criteria, gate: Gate) -> str:
    parts = [f"### {gate.id}", _flowed(gate.rule), f"A FAIL usually means: {_flowed(gate.meaning)}"]
    reasons = [
        f"- {row.scale}{'' if row.stage == ANY else f', {row.stage}'}: {row.status}, {row.reason}"
        + (f" (taken over: {', '.join(row.waived)})" if row.waived else "")
        for row in gate.requirement
    ]
    parts.append("\n".join(reasons))
    rows = [_threshold(row) for row in criteria.thresholds if row.gate == gate.id]
    if rows:
        parts.append(_table(("threshold", "value", "unit", "where", "reason", "source"), rows))
    lists = [
        f"- {row.name} ({row.when}): {', '.join(row.values)}; {row.reason}"
        for row in criteria.names
        if row.gate == gate.id
    ]
    return "\n\n".join([*parts, "\n".join(lists)] if lists else parts)


def _threshold(row: Threshold) -> list[str]:
    where = [value for value in (row.precision, row.stage, row.scale) if value != ANY]
    value = f"{row.value:g}"
    return [row.name, value, row.unit, ", ".join(where) or "all", row.reason, row.source]


def _flowed(text: str) -> str:
    return " ".join(text.split())


def main(words: Sequence[str]) -> int:
    """Rewrite the generated part of a page."""
    path = Path(words[0])
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    body = f"{before}{BEGIN}\n\n{tables(load_criteria())}\n\n{END}{after}"
    path.write_text(body, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
