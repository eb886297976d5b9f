"""How a pair is judged that no claim names exactly: one policy per kind of relation.

Each takes a `Query` and answers an `Answer`, or None when nothing is published that could decide.
Which relation follows which policy is data: matrices/relations.tsv.
"""

from __future__ import annotations

from certify.resolver.model import COMPATIBLE, INCOMPATIBLE, REFERENCE, UNDECLARED, Reason
from certify.versions import Version, parse_spec, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass, field

    from certify.resolver.claims import Claims, Statement
    from certify.resolver.model import Context
else:
    from certify.light import dataclass, field

_LISTED = 4


@dataclass(frozen=True)
class Query:
    """One question: do these two go together? tolerance: see relations.tsv."""

    claims: Claims
    context: Context
    subject: str
    object: str
    version: Version
    found: Version
    authority: tuple[str, ...]
    tolerance: int = 0

    def statements(self) -> list[Statement]:
        """What the authority says about this subject, conditions applied."""
        index = self.claims.index(self.subject, self.object)
        return [
            statement
            for statement in index.about(self.version)
            if statement.scope in self.authority
            and self.claims.applies(statement.claim, self.context)
        ]

    def words(self, **more: str) -> dict[str, str]:
        """The names that every sentence about this pair needs."""
        return {
            "subject": self.claims.name(self.subject),
            "object": self.claims.name(self.object),
            "version": self.version.raw,
            "found": self.found.raw,
            **more,
        }

    def reasons(self, statements: Sequence[Statement]) -> tuple[Reason, ...]:
        """The first few statements as links of the chain."""
        return tuple(self._reason(statement) for statement in statements[:_LISTED])

    def _reason(self, statement: Statement) -> Reason:
        if self.subject in statement.claim.components or "product" not in statement.claim.where:
            return self.claims.reason(statement, self.subject, self.object)
        # What is said of the object on a product, whatever the subject is.
        on_product = statement._replace(
            subject=parse_spec("name", statement.claim.where["product"])
        )
        return self.claims.reason(on_product, "product", self.object)


@dataclass(frozen=True)
class Answer:
    """A status with what carries it. statements: deciding claims; declared: values of the object
    that would have been right, best first; more: conclusions of ours."""

    status: str
    statements: tuple[Statement, ...] = ()
    more: tuple[Reason, ...] = ()
    declared: tuple[str, ...] = field(default=())


def hits_of(query: Query, statements: Sequence[Statement]) -> list[Statement]:
    """The statements that name this object version, the newest and most exact first."""
    hits = [s for s in statements if s.object.matches(query.found)]
    hits.sort(key=lambda s: (s.object.is_exact, s.claim.date), reverse=True)
    return hits


def decide(query: Query, statements: Sequence[Statement]) -> Answer | None:
    """The answer of claims that name this very pair; None when none does."""
    hits = hits_of(query, statements)
    if not hits:
        return None
    first = hits[0]
    against = [s for s in hits if not s.positive]
    if against and (not first.positive or against[0].claim.date >= first.claim.date):
        return Answer(INCOMPATIBLE, tuple(against), declared=declared_values(statements))
    best = [s for s in hits if s.positive]
    status = REFERENCE if any(s.claim.kind == "reference" for s in best) else COMPATIBLE
    if status == REFERENCE:
        best.sort(key=lambda s: s.claim.kind != "reference")
    return Answer(status, tuple(best))


def declared_values(statements: Sequence[Statement]) -> tuple[str, ...]:
    """What the positive statements would accept, references first, newest first."""
    values: dict[str, None] = {}
    ordered = sorted(
        (s for s in statements if s.positive),
        key=lambda s: (s.claim.kind == "reference", s.claim.date),
        reverse=True,
    )
    for statement in ordered:
        if statement.object.is_exact:
            for value in sorted(statement.object.values, key=lambda v: v.key, reverse=True):
                values.setdefault(value.raw)
        else:
            values.setdefault(statement.object.text)
    return tuple(values)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values[:_LISTED]) + (", ..." if len(values) > _LISTED else "")


def _nothing(query: Query) -> Answer:
    return Answer(UNDECLARED, more=(Reason("unknown", query.words()),))


def _outside(query: Query, statements: Sequence[Statement], status: str) -> Answer:
    """Declared for other values of the object only."""
    values = declared_values(statements)
    if not values:
        return _nothing(query)
    more = Reason("not-listed", query.words(listed=_listed(values)))
    return Answer(status, tuple(s for s in statements if s.positive), (more,), values)


def exact(query: Query) -> Answer | None:
    """Pairs are listed one by one: a known subject with another partner is incompatible."""
    statements = query.statements()
    return decide(query, statements) or _outside(query, statements, INCOMPATIBLE)


def soft(query: Query) -> Answer | None:
    """What is not listed is only undeclared; nothing at all listed gives no result."""
    statements = query.statements()
    if not statements:
        return None
    return decide(query, statements) or _outside(query, statements, UNDECLARED)


def listed(query: Query) -> Answer | None:
    """Complete lists, as of interpreters. Two current lists that differ make it undeclared."""
    statements = query.statements()
    if not statements:
        return None
    answer = decide(query, statements)
    if answer is None:
        return _outside(query, statements, INCOMPATIBLE)
    without = [s for s in statements if s.positive and not s.object.matches(query.found)]
    disputed = [s for s in without if s.claim.conflict and _same_conflict(s, answer.statements)]
    if not disputed:
        return answer
    conflict = disputed[0].claim.conflict
    row = query.claims.conflicts.get(conflict, {})
    more = Reason("disagree", {"conflict": conflict, "handling": row.get("handling", "")})
    return Answer(UNDECLARED, answer.statements + tuple(disputed), (more,))


def _same_conflict(statement: Statement, others: Sequence[Statement]) -> bool:
    return any(other.claim.conflict == statement.claim.conflict for other in others)


def required(query: Query) -> Answer | None:
    """Ranges that must all hold. No range, no result."""
    statements = [s for s in query.statements() if s.claim.kind in ("requirement", "incompatible")]
    if not statements:
        return None
    broken = [s for s in statements if s.positive != s.object.matches(query.found)]
    if broken:
        return Answer(INCOMPATIBLE, tuple(broken), declared=declared_values(broken))
    return Answer(COMPATIBLE, tuple(statements))


def pinned(query: Query) -> Answer | None:
    """A pin of a requirements file: another version is undeclared, not proven wrong.

    A conflict whose handling is ``accept`` names the value that the field runs instead.
    """
    statements = query.statements()
    if not statements:
        return None
    answer = decide(query, statements)
    if answer is not None:
        return Answer(COMPATIBLE, answer.statements)
    for statement in statements:
        row = query.claims.conflicts.get(statement.claim.conflict, {})
        if row.get("action") == "accept" and query.found.raw in row.get("accepts", "").split("|"):
            words = {"conflict": row["id"], "handling": row["handling"]}
            return Answer(COMPATIBLE, tuple(statements), (Reason("disagree", words),))
    return _outside(query, statements, UNDECLARED)


def row(query: Query) -> Answer | None:
    """A row of a framework's table. It never overrides the base stack, so a departure is
    undeclared, unless the release itself differs for a package it was built against."""
    statements = query.statements()
    if not statements:
        return None
    answer = decide(query, statements)
    if answer is not None:
        return answer
    positive = [s for s in statements if s.positive and not s.object.absent]
    if not positive:
        return None
    wanted = {release(v) for s in positive for v in s.object.values}
    built_against = query.object in ("torch", "torch_npu", "vllm")
    status = (
        INCOMPATIBLE if built_against and wanted and release(query.found) not in wanted
        else UNDECLARED
    )  # fmt: skip
    return _outside(query, statements, status)


def train(query: Query) -> Answer | None:
    """Strict pairing by train: point releases of a declared train pass, others do not."""
    statements = query.statements()
    if not statements:
        return _nothing(query)
    answer = decide(query, statements)
    if answer is not None:
        return answer
    near = [s for s in statements if s.positive and _of_train(s, query.found.train)]
    if near:
        if query.found.is_prerelease:
            return Answer(UNDECLARED, tuple(near), (Reason("prerelease", query.words()),))
        more = Reason("same-train", query.words(declared=near[0].object.text))
        return Answer(COMPATIBLE, tuple(near), (more,))
    return _outside(query, statements, INCOMPATIBLE)


def _of_train(statement: Statement, wanted: tuple[int, ...]) -> bool:
    return any(value.train == wanted for value in statement.object.values)


def same(query: Query) -> Answer | None:
    """Parts of one release. A cross pair counts when it is declared."""
    if _base(query.version) == _base(query.found):
        more = Reason("same-release", query.words(needed=query.found.raw))
        return Answer(REFERENCE, more=(more,))
    answer = decide(query, query.statements())
    if answer is not None and answer.status != INCOMPATIBLE:
        return Answer(COMPATIBLE, answer.statements)
    more = Reason("same-release", query.words(needed=query.version.raw))
    return Answer(INCOMPATIBLE, more=(more,), declared=(query.version.raw,))


def _base(version: Version) -> object:
    return version.key[:7] if version.family == "cann" else version.key


def exclusive(query: Query) -> Answer | None:
    """A partner that must be absent, or present in one version only."""
    statements = query.statements()
    if not statements:
        return None
    hits = hits_of(query, statements)
    against = [s for s in hits if not s.positive]
    if against:
        return Answer(INCOMPATIBLE, tuple(against), declared=("none",))
    allowed = [s for s in statements if s.claim.kind == "requirement"]
    if not allowed:
        return None
    good = [s for s in allowed if s.object.matches(query.found)]
    if good:
        return Answer(COMPATIBLE, tuple(good))
    return _outside(query, allowed, UNDECLARED)


def excluded(query: Query) -> Answer | None:
    """Only what is excluded in words decides."""
    against = [s for s in hits_of(query, query.statements()) if not s.positive]
    return Answer(INCOMPATIBLE, tuple(against)) if against else None


POLICIES: dict[str, Callable[[Query], Answer | None]] = {
    "exact": exact,
    "soft": soft,
    "list": listed,
    "range": required,
    "pin": pinned,
    "row": row,
    "train": train,
    "same": same,
    "exclusive": exclusive,
    "exclude": excluded,
}
