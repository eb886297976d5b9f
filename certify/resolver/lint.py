"""Checks the matrix against itself: what `certify matrix lint` proves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from certify.resolver.policies import POLICIES
from certify.versions import FAMILIES, SpecError, parse_spec
from matrices.load import KINDS, STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from certify.versions import Spec
    from matrices.load import Claim, Matrix

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATED = ("seen", "published", "read")
_WHERE = ("product", "arch", "at")
_OWN_POLICIES = ("wheel", "driver", "release", "device", "core")
# Components that identify what a reference row is about, and those that it then fixes.
_ROW_SUBJECTS = ("torch_npu", "triton_ascend", "mindspeed_llm", "mindspeed_core", "torchvision")


@dataclass(frozen=True)
class Problem:
    """One fault. claim: its id, or the table; what: one sentence."""

    claim: str
    what: str


def lint(matrix: Matrix) -> list[Problem]:
    """Every fault found, in a stable order; empty for a sound matrix."""
    claims = matrix.history
    problems = list(_tables(matrix))
    seen: set[str] = set()
    for claim in claims:
        if claim.id in seen:
            problems.append(Problem(claim.id, "the id is used twice"))
        seen.add(claim.id)
        problems += _one(claim, matrix)
    problems += _contradictions(matrix)
    return problems


def _tables(matrix: Matrix) -> Iterator[Problem]:
    for key, row in matrix.components.items():
        if row["family"] not in FAMILIES:
            yield Problem(f"components.tsv {key}", f"no version family {row['family']!r}")
        if not row["cost"].isdigit():
            yield Problem(f"components.tsv {key}", f"cost {row['cost']!r} is no number")
    rules = {relation["rule"] for relation in matrix.tables["relations"]}
    for relation in matrix.tables["relations"]:
        place = f"relations.tsv {relation['rule']} {relation['subject']} {relation['object']}"
        for end in ("subject", "object"):
            if relation[end] not in matrix.components:
                yield Problem(place, f"no component {relation[end]!r}")
        if relation["policy"] not in (*POLICIES, *_OWN_POLICIES):
            yield Problem(place, f"no policy {relation['policy']!r}")
    if not rules:
        yield Problem("relations.tsv", "no relations, so no pair would be judged")
    for row in matrix.tables["conflicts"]:
        if not row["handling"]:
            yield Problem(f"conflicts.tsv {row['id']}", "no handling")


def _one(claim: Claim, matrix: Matrix) -> Iterator[Problem]:
    """Source, date, known words, readable versions."""
    if claim.kind not in KINDS:
        yield Problem(claim.id, f"no kind {claim.kind!r}; known: {', '.join(KINDS)}")
    if claim.state not in STATES:
        yield Problem(claim.id, f"no state {claim.state!r}; known: {', '.join(STATES)}")
    if not claim.source or not claim.path:
        yield Problem(claim.id, "no source: repository or site, and document")
    if not _DATE.fullmatch(claim.date):
        yield Problem(claim.id, f"{claim.date!r} is no date")
    if claim.dated not in _DATED:
        yield Problem(claim.id, f"dated {claim.dated!r}; known: {', '.join(_DATED)}")
    for key in claim.where:
        if key not in _WHERE:
            yield Problem(claim.id, f"no condition {key!r}; known: {', '.join(_WHERE)}")
    if claim.conflict and all(r["id"] != claim.conflict for r in matrix.tables["conflicts"]):
        yield Problem(claim.id, f"conflict {claim.conflict} is not in conflicts.tsv")
    products = {row["name"] for row in matrix.tables["products"]}
    for product in claim.where.get("product", "").lstrip("!").split("|"):
        if product and product not in products:
            yield Problem(claim.id, f"no product {product!r}")
    alone = len(claim.components) < 2 and not claim.where and claim.state != "upcoming"
    if alone and claim.kind in ("reference", "tag-map"):
        yield Problem(claim.id, "pairs nothing: fewer than two components")
    for key, text in claim.components.items():
        if key not in matrix.components:
            yield Problem(claim.id, f"no component {key!r} in components.tsv")
            continue
        if matrix.family(key) not in FAMILIES:
            continue
        try:
            parse_spec(matrix.family(key), text)
        except SpecError as error:
            yield Problem(claim.id, f"{key}: {error}")


def _contradictions(matrix: Matrix) -> Iterator[Problem]:
    """Reference rows that a current claim contradicts, unless the handling is on record.

    Two kinds: an incompatible claim that covers the pair of a reference row, and two reference
    rows that give one exact version of a subject different exact partners.
    """
    current = [claim for claim in matrix.claims if claim.state == "current"]
    rows = [claim for claim in current if claim.kind == "reference"]
    against = [claim for claim in current if claim.kind == "incompatible"]
    for row in rows:
        for other in against:
            if _covers(other, row, matrix) and not (other.conflict or row.conflict):
                yield Problem(row.id, f"reference row, but {other.id} declares it incompatible")
    for subject in _ROW_SUBJECTS:
        yield from _double_rows(matrix, rows, subject)


def _covers(other: Claim, row: Claim, matrix: Matrix) -> bool:
    shared = [key for key in other.components if key in row.components]
    if len(shared) < 2 or len(shared) < len(other.components):
        return False
    if _products(other) and _products(row) and not _products(other) & _products(row):
        return False
    return all(_inside(key, row, other, matrix) for key in shared)


def _products(claim: Claim) -> set[str]:
    condition = claim.where.get("product", "")
    return set() if condition.startswith("!") else set(condition.split("|")) - {""}


def _inside(key: str, row: Claim, other: Claim, matrix: Matrix) -> bool:
    mine, wide = _spec(key, row, matrix), _spec(key, other, matrix)
    if mine is None or wide is None or not mine.values:
        return False
    return all(wide.matches(value) for value in mine.values)


def _spec(key: str, claim: Claim, matrix: Matrix) -> Spec | None:
    try:
        return parse_spec(matrix.family(key), claim.components[key])
    except (SpecError, KeyError):
        return None


def _double_rows(matrix: Matrix, rows: Iterable[Claim], subject: str) -> Iterator[Problem]:
    """Rows of one table family that fix the same partner of one version differently."""
    fixed: dict[tuple[object, ...], Claim] = {}
    for row in rows:
        if subject not in row.components or not row.scope.startswith(subject):
            continue
        mine = _spec(subject, row, matrix)
        if mine is None or not mine.is_exact or len(mine.values) != 1:
            continue
        for partner in ("cann", "torch", "megatron", "mindspeed_core"):
            if partner == subject or partner not in row.components:
                continue
            spec = _spec(partner, row, matrix)
            if spec is None or not spec.is_exact:
                continue
            place = (subject, mine.values[0].key, partner, row.where.get("product", ""))
            known = fixed.setdefault(place, row)
            first = _spec(partner, known, matrix)
            agree = first is not None and any(first.matches(value) for value in spec.values)
            if not agree and not (known.conflict or row.conflict):
                yield Problem(row.id, f"pairs {partner} otherwise than {known.id}, unlisted")
