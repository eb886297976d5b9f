"""The smallest change: from what is installed to the nearest stack whose pairs are declared.

Costs are data (matrices/components.tsv): a pip package 1, Python 20, CANN 100, driver and firmware
1000, hardware out of reach. Parts that move together (toolkit, ops and NNAL; driver and firmware)
are paid once.
"""

from __future__ import annotations

from certify.resolver.claims import claims_of
from certify.resolver.commands import commands_for
from certify.resolver.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    REFERENCE,
    UNDECLARED,
    Change,
    Context,
    PairResult,
    Resolution,
)
from certify.resolver.pairs import completed, named_context
from certify.resolver.search import FIXED, REMOVED, Search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from matrices.load import Matrix

_LAYERS = ("driver", "cann", "python", "package")
_STRENGTH = ("reference", "declared", "undeclared")
_WORDS = {REFERENCE: "reference", COMPATIBLE: "declared", UNDECLARED: "undeclared"}


def smallest_change(
    matrix: Matrix,
    have: Mapping[str, str],
    context: Context | None = None,
    keep: Collection[str] = (),
    target: Mapping[str, str] | None = None,
) -> Resolution:
    """The cheapest changes after which no pair is incompatible and the base pairs are declared.

    keep: components that the user cannot change; target: components that must get a given value
    (``{"cann": "9.1.0"}``): then the answer is the cost of that upgrade. Components that are not
    in ``have`` are neither judged nor changed. Level ``none`` with ``blocked`` when what may not
    move contradicts itself.
    """
    claims = claims_of(matrix)
    context = named_context(claims, context)
    search = Search(claims, completed(claims, have, context), context, keep, target or {})
    plan = search.run()
    if plan is None:
        blocked = tuple(search.blocked) or tuple(search.standing()) or tuple(sorted(keep))
        return Resolution((), 0, {}, "none", blocked=blocked)
    results = search.results(plan.row, search.order)
    return Resolution(
        _changes(search, plan.row),
        plan.cost,
        {key: plan.row[key] for key in search.order if plan.row[key] != REMOVED},
        _level(results),
        _stays(search, plan.row, results),
        tuple(dict.fromkeys("+".join(r.components) for r in results if r.status == UNDECLARED)),
        claims=tuple(dict.fromkeys(name for r in results for name in r.claims[:1])),
    )


def _level(results: Iterable[PairResult]) -> str:
    """The weakest status of a row."""
    statuses = {result.status for result in results}
    for status in (UNDECLARED, COMPATIBLE):
        if status in statuses:
            return status
    return REFERENCE


def _changes(search: Search, row: dict[str, str]) -> tuple[Change, ...]:
    """Heaviest layer first: a driver goes before the CANN that needs it."""
    so_far: dict[str, str] = {}
    changes = []
    for key in search.order:
        if row[key] == search.have.get(key):
            continue
        layer = search.claims.matrix.components[key]["layer"]
        changes.append(
            Change(
                key,
                search.have.get(key, ""),
                row[key],
                search.cost(key, row[key], so_far),
                layer,
                _because(search, key, row),
                commands_for(key, row, search.context),
                stops_jobs=layer == "driver",
            )
        )
        so_far[key] = row[key]
    return tuple(sorted(changes, key=lambda change: _LAYERS.index(change.layer)))


def _because(search: Search, key: str, row: dict[str, str]) -> str:
    """The id of a claim that pairs the new value with the rest; ``target`` if it was asked for."""
    if key in search.target:
        return "target"
    if row[key] == REMOVED:
        here = {**row, key: search.have[key]}
        results = search.results(here, [key])
        return next((r.claims[0] for r in results if r.status == INCOMPATIBLE and r.claims), "")
    good = [
        result
        for result in search.results(row, search.order)
        if key in result.components and result.status in (REFERENCE, COMPATIBLE) and result.claims
    ]
    good.sort(key=lambda result: result.status != REFERENCE)
    return good[0].claims[0] if good else ""


def _stays(search: Search, row: Mapping[str, str], results: Iterable[PairResult]) -> dict[str, str]:
    """What need not move, and how well that is published: ``reference`` (paired in a table, so
    tested together), ``declared`` or ``undeclared``; the weakest of its pairs decides."""
    answer: dict[str, str] = {}
    for result in results:
        for key in result.components:
            if key in row and key not in FIXED and row[key] == search.have.get(key):
                word = _WORDS[result.status]
                answer[key] = max(answer.get(key, word), word, key=_STRENGTH.index)
    return answer
