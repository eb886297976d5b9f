"""Rows whose backend or branch upstream retired, and what lives on in their place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from certify.errors import UsageError
from certify.recipes.rows import Row, branch_of, load_support_list

if TYPE_CHECKING:
    from datetime import date

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([BT])")


def billions(size: str) -> float | None:
    """Parameters of a published size in billions (the first number), None where it has none."""
    found = _SIZE.search(size)
    if not found:
        return None
    return float(found.group(1)) * (1000 if found.group(2) == "T" else 1)


def _family(row: Row) -> str:
    found = re.match(r"[a-z]+", row.id)
    return found.group(0) if found else row.id


def living_rows(row: Row, today: date, count: int = 3) -> list[Row]:
    """Rows of the same category whose branch is maintained: own family first, then by size."""
    size = billions(row.size) or 0.0

    def distance(other: Row) -> tuple[bool, bool, float]:
        far = abs((billions(other.size) or 0.0) - size)
        return _family(other) != _family(row), other.status != "Pass", far

    living = [
        other
        for other in load_support_list()
        if other.category == row.category
        and other.backend != "legacy"
        and branch_of(other).retired_on(today) is None
    ]
    return sorted(living, key=distance)[:count]


def legacy_error(row: Row, today: date) -> UsageError:
    """What to say to somebody who wants to run a Legacy row."""
    branch = branch_of(row)
    ended = f", maintained until {branch.end}" if branch.end else ""
    others = ", ".join(other.id for other in living_rows(row, today))
    return UsageError(
        f"{row.id} uses the Legacy backend, which upstream retired: {branch.branch} is the last"
        f" version that has it{ended}",
        where=f"{row.script_dir} of branch {branch.branch}",
        expected="a row of backend Mcore or FSDP2",
        hint=f"certify run with one of: {others}",
    )
