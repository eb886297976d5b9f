"""Every pair of what is installed, judged by the claims about it."""

from __future__ import annotations

from certify.resolver.claims import Claims, Statement, claims_of, statement
from certify.resolver.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    REFERENCE,
    UNDECLARED,
    Context,
    PairResult,
    Reason,
)
from certify.resolver.policies import POLICIES, Answer, Query, decide
from certify.resolver.trains import cann_with_driver, products_of, wheel_with_cann
from certify.versions import core_line, parse_spec, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from certify.versions import Version
    from matrices.load import Matrix

_NEAREST = 4


def pair_results(
    matrix: Matrix, have: Mapping[str, str], context: Context | None = None
) -> list[PairResult]:
    """The judged pairs among these components, in the order of relations.tsv.

    A relation about which nothing at all is published gives no result.
    """
    claims = claims_of(matrix)
    context = named_context(claims, context)
    have = completed(claims, have, context)
    results = []
    for relation in matrix.tables["relations"]:
        subject, object_ = relation["subject"], relation["object"]
        needed = relation["needs"]
        if subject in have and object_ in have and (not needed or needed in have):
            result = judge(claims, relation, have, context)
            if result is not None:
                results.append(result)
    return results


def named_context(claims: Claims, context: Context | None) -> Context:
    """The context with the product as products.tsv calls it."""
    if context is None:
        return Context()
    return Context(claims.product_name(context.product), context.arch, context.model_type)


def completed(claims: Claims, have: Mapping[str, str], context: Context) -> dict[str, str]:
    """What follows from what is there: hdk from the driver, the product release from the wheel,
    product and arch from the context."""
    answer = {key: value for key, value in have.items() if value}
    if "driver" in answer:
        answer.setdefault("hdk", answer["driver"])
    for key, value in (("product", context.product), ("arch", context.arch)):
        if value:
            answer.setdefault(key, value)
    if context.model_type:
        answer.setdefault("model_type", context.model_type)
    wheel = claims.version("torch_npu", answer.get("torch_npu", ""))
    if wheel is not None and "torch_npu_product" not in answer:
        products = products_of(claims, wheel, answer.get("torch_npu_git"))
        if len(products) == 1:
            answer["torch_npu_product"] = products[0][0]
    return answer


def judge(
    claims: Claims,
    relation: Mapping[str, str],
    have: Mapping[str, str],
    context: Context,
    *,
    brief: bool = False,
) -> PairResult | None:
    """One relation judged; None when nothing is published that could decide.

    brief: status, claims and declared values only, for the search that asks hundreds of times.
    """
    subject, object_ = relation["subject"], relation["object"]
    found = {subject: have[subject], object_: have[object_]}
    versions = []
    for key in (subject, object_):
        version = claims.version(key, found[key])
        if version is None:
            reason = Reason("unreadable", {"component": claims.name(key), "found": found[key]})
            return PairResult(
                relation["rule"], UNDECLARED, (subject, object_), found, why=(reason,)
            )
        versions.append(version)
    query = Query(
        claims,
        context,
        subject,
        object_,
        versions[0],
        versions[1],
        tuple(relation["authority"].split(",")),
        int(relation["tolerance"] or 0),
    )
    answer = _answer(relation["policy"], query, have)
    return None if answer is None else _result(relation["rule"], query, answer, found, brief)


def _answer(policy: str, query: Query, have: Mapping[str, str]) -> Answer | None:
    if policy == "wheel":
        return wheel_with_cann(query, have.get("torch_npu_git"))
    if policy == "driver":
        return cann_with_driver(query)
    if policy == "release":
        return _wheel_with_torch(query)
    if policy == "device":
        return _device(query)
    if query.subject == "product":
        return _for_product(policy, query)
    if policy == "core":
        return _core_line(query)
    answer = POLICIES[policy](query)
    if query.object == "mindspeed_core" and answer is not None:
        return _tag_explained(query, answer)
    return answer


def _wheel_with_torch(query: Query) -> Answer:
    """torch_npu X.Y.Z goes with torch X.Y.Z, whatever the table knows of the wheel."""
    statements = [s for s in query.statements() if s.positive]
    needed = ".".join(map(str, _three(release(query.version))))
    if release(query.version) == release(query.found):
        good = tuple(s for s in statements if s.object.matches(query.found))
        return Answer(REFERENCE, good, (Reason("release", query.words(needed=needed)),))
    if any(s.object.matches(query.found) for s in statements):
        return Answer(COMPATIBLE, tuple(s for s in statements if s.object.matches(query.found)))
    more = (Reason("release", query.words(needed=needed)),)
    return Answer(INCOMPATIBLE, tuple(statements), more, (needed,))


def _three(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers, 0, 0)[: max(3, len(numbers))]


def _on_products(query: Query) -> list[Statement]:
    """Claims about the object that hold on certain products only, the product as their subject."""
    index = query.claims.index(query.object, query.object)
    return [
        statement(s.claim, parse_spec("name", s.claim.where["product"]), s.object)
        for s in index.all
        if s.scope in query.authority and "product" in s.claim.where
    ]


def _for_product(policy: str, query: Query) -> Answer | None:
    """What a product requires of the object (range) or what excludes it (exclude)."""
    product = query.context.product or query.version.raw
    statements = [
        s for s in _on_products(query) if query.claims.product_holds(s.subject.text, product)
    ]
    if policy == "exclude":
        statements = [s for s in statements if not s.positive]
    broken = [s for s in statements if s.positive != s.object.matches(query.found)]
    if broken:
        declared = tuple(s.object.text for s in broken if s.positive)
        return Answer(INCOMPATIBLE, tuple(broken), declared=declared)
    good = tuple(s for s in statements if s.positive)
    return Answer(COMPATIBLE, good) if good else None


def _device(query: Query) -> Answer | None:
    """Which devices a release lists. A device that is not listed is undeclared."""
    product = query.context.product or query.version.raw
    listed = [s for s in _on_products(query) if s.object.matches(query.found)]
    hits = [s for s in listed if query.claims.product_holds(s.subject.text, product)]
    against = tuple(s for s in hits if not s.positive)
    if against:
        return Answer(INCOMPATIBLE, against)
    if hits:
        return Answer(COMPATIBLE, tuple(hits))
    if not listed:
        return None
    values = tuple(s.subject.text for s in listed if s.positive)
    words = {
        **query.words(listed=", ".join(values), version=query.found.raw, found=query.version.raw),
        "subject": query.claims.name(query.object),
        "object": query.claims.name("product"),
    }
    return Answer(UNDECLARED, tuple(listed), (Reason("not-listed", words),), values)


def _core_line(query: Query) -> Answer | None:
    """A MindSpeed branch carries the Megatron line in its name."""
    line = core_line(query.version)
    if not line:
        return POLICIES["exact"](query)
    same = line == release(query.found)
    needed = ".".join(map(str, _three(line)))
    more = (Reason("core-line", query.words(needed=needed)),)
    statements = tuple(query.statements())
    if same:
        named = decide(query, statements)
        statements = named.statements if named else ()
        return Answer(named.status if named else COMPATIBLE, statements, more)
    return Answer(INCOMPATIBLE, statements, more, (f"core_v{needed}",))


def _tag_explained(query: Query, answer: Answer) -> Answer:
    """``core_v0.12.1`` in place of a MindSpeed branch is Megatron's tag: say so, decide nothing."""
    named_line = query.found.key[0] == 0 and core_line(query.found)
    if not named_line or answer.status != INCOMPATIBLE:
        return answer
    line = core_line(query.found)
    values = [v for s in answer.statements for v in s.object.values if core_line(v) == line]
    if not values:
        return answer
    listed = ", ".join(dict.fromkeys(v.raw for v in values))
    more = Reason("megatron-tag", query.words(listed=listed))
    return Answer(UNDECLARED, answer.statements, (more,), tuple(v.raw for v in values))


def _result(
    rule: str, query: Query, answer: Answer, found: dict[str, str], brief: bool
) -> PairResult:
    why = () if brief else query.reasons(answer.statements) + _with_rows(query, answer)
    # A conflict is told where it is about this pair, not about others of the same table.
    conflict = next((r.values["conflict"] for r in answer.more if "conflict" in r.values), "")
    conflict = conflict or next(
        (s.claim.conflict for s in answer.statements if s.claim.conflict and _about(query, s)), ""
    )
    expected: dict[str, tuple[str, ...]] = {}
    # An undeclared driver is no reason to move anything.
    open_driver = answer.status == UNDECLARED and query.object == "hdk"
    if answer.status in (INCOMPATIBLE, UNDECLARED) and not open_driver:
        if answer.declared:
            expected[query.object] = _nearest(answer.declared, query.found)
        # A driver that is excluded on this product goes with no other CANN either.
        own = any(query.subject in s.claim.components for s in answer.statements)
        aside = query.object == "hdk" and not own
        subjects = () if brief or aside else tuple(_subjects_for(query))
        if subjects:
            expected[query.subject] = subjects
    return PairResult(
        rule,
        answer.status,
        (query.subject, query.object),
        found,
        expected,
        tuple(dict.fromkeys(s.claim.id for s in answer.statements)),
        why,
        conflict,
    )


def _with_rows(query: Query, answer: Answer) -> tuple[Reason, ...]:
    """The conclusions, with the row of another project that lists a pair which is not declared:
    it does not override the tables of the components themselves, but it is published."""
    if answer.status not in (INCOMPATIBLE, UNDECLARED):
        return answer.more
    if any(reason.kind == "elsewhere" for reason in answer.more):
        return answer.more
    claims = query.claims
    row = next(
        (
            s
            for s in claims.index(query.subject, query.object).about(query.version)
            if s.positive
            and s.scope not in query.authority
            and s.object.matches(query.found)
            and claims.applies(s.claim, query.context)
        ),
        None,
    )
    if row is None:
        return answer.more
    words = query.words(source=row.claim.citation())
    more = tuple(reason for reason in answer.more if reason.kind != "unknown")
    return (*more, Reason("elsewhere", words, row.claim.id))


def _about(query: Query, statement: Statement) -> bool:
    return query.object != "hdk" or statement.object.matches(query.found)


def _nearest(values: Iterable[str], found: Version) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))[:_NEAREST]


def _subjects_for(query: Query) -> list[str]:
    """Versions of the subject that are declared with the object found, its own release first."""
    if query.subject == "product":
        return []
    index = query.claims.index(query.subject, query.object)
    candidates = {
        value.raw: value
        for s in index.all
        if s.positive
        and s.scope in query.authority
        and s.claim.state == "current"
        and s.object.matches(query.found)
        and query.claims.applies(s.claim, query.context)
        for value in s.subject.values
    }
    own = release(query.version)
    ordered = sorted(candidates.values(), key=lambda v: (release(v) == own, v.key), reverse=True)
    return [version.raw for version in ordered][:_NEAREST]
