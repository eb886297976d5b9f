"""Two states of the matrix compared claim by claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matrices.load import Claim, Matrix


@dataclass(frozen=True)
class ClaimChange:
    """kind: added, removed or changed; fields: column -> (before, after) of a changed claim."""

    kind: str
    claim: Claim
    fields: dict[str, tuple[str, str]]


def compare(before: Matrix, after: Matrix) -> list[ClaimChange]:
    """Added, removed and changed claims, by id. A claim is the same one when its id is."""
    old = {claim.id: claim for claim in before.history}
    new = {claim.id: claim for claim in after.history}
    changes = []
    for name in sorted({*old, *new}):
        if name not in old:
            changes.append(ClaimChange("added", new[name], {}))
        elif name not in new:
            changes.append(ClaimChange("removed", old[name], {}))
        elif old[name] != new[name]:
            changes.append(ClaimChange("changed", new[name], _fields(old[name], new[name])))
    return changes


def _fields(old: Claim, new: Claim) -> dict[str, tuple[str, str]]:
    pairs = zip(old._fields, old, new, strict=True)
    return {name: (_text(a), _text(b)) for name, a, b in pairs if a != b}


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={part}" for key, part in value.items())
    return str(value)
