"""The fault x gate table, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.selftest.outcome import BITWISE, USUAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from certify.selftest.outcome import Outcome

SCHEMA = "certify.selftest/1"
# The share of seeds in which a fault must be caught (CRITERIA, certify the certifier).
RELEASE_SHARE = 0.95


def document(outcomes: Sequence[Outcome], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for ``--json``. facts: date, versions, seeds, seconds."""
    rows = [_row(fault, case, found) for (fault, case), found in _grouped(outcomes).items()]
    return {
        "schema": SCHEMA,
        **facts,
        "verdict": "PASS" if all(row["ok"] for row in rows) else "FAIL",
        "rows": rows,
    }


def _grouped(outcomes: Sequence[Outcome]) -> dict[tuple[str | None, str], list[Outcome]]:
    found: dict[tuple[str | None, str], list[Outcome]] = {}
    for one in outcomes:
        found.setdefault((one.fault, one.case), []).append(one)
    return found


def is_caught(fault: str | None, right: int, seeds: int) -> bool:
    """The release rule: an A/A (no fault) passes with every seed, a fault is caught in most."""
    return right >= (seeds if fault is None else RELEASE_SHARE * seeds)


def _row(fault: str | None, case: str, found: list[Outcome]) -> dict[str, Any]:
    right, n = sum(one.is_right for one in found), len(found)
    gates = sorted({gate for one in found for gate in one.caught})
    usual = [*USUAL, BITWISE]
    return {
        "fault": fault,
        "case": case,
        "seeds": n,
        "right": right,
        "ok": is_caught(fault, right, n),
        "expected": list(found[0].expected),
        "caught_by": {gate: sum(gate in one.caught for one in found) for gate in gates},
        "usual": {rule: sum(one.usual.get(rule, False) for one in found) for rule in usual},
        "reasons": next((one.reasons for one in found if not one.is_right), {}),
    }


def text(body: Mapping[str, Any]) -> str:
    """The table for people (Markdown, so that docs can hold it)."""
    rules = [*USUAL, BITWISE]
    head = ["fault", "case", "caught", "by (seeds)", *(f"{rule}?" for rule in rules)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in body["rows"]:
        by = ", ".join(
            f"**{gate}** {n}" if gate in row["expected"] else f"{gate} {n}"
            for gate, n in sorted(row["caught_by"].items(), key=lambda item: -item[1])
        )
        if row["fault"] is None:
            by = "all gates pass" if row["ok"] else "; ".join(row["reasons"].values())
        cells = [
            row["fault"] or "none (A/A)",
            row["case"],
            f"{row['right']}/{row['seeds']}",
            by or "nothing",
            *(f"{row['usual'][rule]}/{row['seeds']}" for rule in rules),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    bad = [row for row in body["rows"] if not row["ok"]]
    said = [f"{row['fault'] or 'A/A'} ({row['case']})" for row in bad]
    lines += ["", f"verdict: {body['verdict']}" + (f": {', '.join(said)}" if said else "")]
    return "\n".join(lines)
