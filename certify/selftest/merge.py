"""Documents of several selftests as one: seeds can be run apart, on other days or machines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.json_text import load_json
from certify.selftest.table import SCHEMA, is_caught

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def read_document(path: Path) -> dict[str, Any]:
    """What ``certify selftest --json`` printed. Raises UsageError for anything else."""
    try:
        body = load_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path)) from None
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        raise UsageError("not the document of a selftest", where=str(path), expected=SCHEMA)
    return body


def merged(bodies: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """One document over all seeds. names: of the documents, for messages.

    Raises UsageError for documents of other software, models or faults, and for a seed that is
    in two of them.
    """
    first, seeds = bodies[0], Counter(seed for body in bodies for seed in body["seeds"])
    for body, name in zip(bodies[1:], names[1:], strict=True):
        for key in ("versions", "cases", "not_here"):
            if body[key] != first[key]:
                raise UsageError(f"other {key} than in {names[0]}", where=name)
        if _trials(body) != _trials(first):
            raise UsageError(f"other faults than in {names[0]}", where=name)
    if twice := [seed for seed, n in seeds.items() if n > 1]:
        raise UsageError(f"seed {twice[0]} is there twice", where=", ".join(names))
    rows = [_row([body["rows"][n] for body in bodies]) for n in range(len(first["rows"]))]
    return {
        **first,
        "date": max(body["date"] for body in bodies),
        "seeds": sorted(seeds),
        "seconds": round(sum(body["seconds"] for body in bodies), 1),
        "verdict": "PASS" if all(row["ok"] for row in rows) else "FAIL",
        "rows": rows,
    }


def _trials(body: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [(row["fault"], row["case"]) for row in body["rows"]]


def _row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    right, seeds = sum(row["right"] for row in rows), sum(row["seeds"] for row in rows)
    return {
        **rows[0],
        "seeds": seeds,
        "right": right,
        "ok": is_caught(rows[0]["fault"], right, seeds),
        "caught_by": _added(rows, "caught_by"),
        "usual": _added(rows, "usual"),
        "reasons": next((row["reasons"] for row in rows if row["reasons"]), {}),
    }


def _added(rows: Sequence[Mapping[str, Any]], key: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row[key])
    return dict(sorted(found.items())) if key == "caught_by" else dict(found)
