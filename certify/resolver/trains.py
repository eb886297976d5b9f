"""The policies of the base stack, where the distance to what is declared counts."""

from __future__ import annotations

from certify.resolver.model import COMPATIBLE, INCOMPATIBLE, REFERENCE, UNDECLARED, Reason
from certify.resolver.policies import Answer, Query, decide, declared_values
from certify.versions import Version, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from certify.resolver.claims import Claims, Statement


def known_trains(claims: Claims) -> list[tuple[int, ...]]:
    """Every CANN train that a deciding claim names, in order: the ruler for distances."""
    if not claims.trains:
        trains = {v.train for spec in claims.specs("cann") for v in spec.values}
        claims.trains = sorted(trains)
    return claims.trains


def products_of(claims: Claims, wheel: Version, git: str | None) -> list[tuple[str, str]]:
    """The product releases that a torch_npu wheel may be, each with the claim that says so.

    git: its git_version, which alone tells apart products that share a wheel version. Without it
    final releases win over the alphas and betas that carried the same number.
    """
    named = claims.products_by_wheel().get(wheel.key[:5], [])
    if git or wheel.key[5]:
        local = git or wheel.raw.partition("+")[2].removeprefix("git")
        exact = [c for c in claims.tags() if _same_commit(c.components["torch_npu_git"], local)]
        if exact:
            named = exact
        elif not git:
            return []
    final = [c for c in named if _is_final(claims, c.components["torch_npu_product"])]
    answer: dict[str, str] = {}
    for claim in final or named:
        answer.setdefault(claim.components["torch_npu_product"], claim.id)
    return list(answer.items())


def _same_commit(published: str, found: str) -> bool:
    shorter = min(len(published), len(found))
    return shorter >= 7 and published[:shorter] == found[:shorter]


def _is_final(claims: Claims, product: str) -> bool:
    version = claims.version("torch_npu_product", product)
    return version is not None and not version.is_prerelease


def wheel_with_cann(query: Query, git: str | None = None) -> Answer | None:
    """torch_npu, post level and product release included, with CANN."""
    claims = query.claims
    products = products_of(claims, query.version, git)
    names = [product for product, _ in products]
    direct = [s for s in query.statements() if not git or _fits(s, names)]
    answer = decide(query, direct)
    if answer is not None:
        return answer
    statements = list(direct)
    chain: list[Reason] = []
    for product, claim_id in products:
        words = query.words(product=product)
        by_product = _product_statements(query, product)
        if by_product:
            chain.append(Reason("product", words, claim_id))
        answer = decide(query, by_product)
        if answer is not None:
            # The table of products speaks of ranges: compatible, whatever its kind.
            status = COMPATIBLE if answer.status == REFERENCE else answer.status
            return Answer(status, answer.statements, (chain[-1],), answer.declared)
        statements += by_product
    answer = _by_distance(query, statements) if statements else None
    # Other projects mean the final wheel of that number, not the test build that git names.
    test_build = bool(git) and bool(names) and not any(_is_final(claims, n) for n in names)
    return _with_other_sources(query, answer, tuple(chain), known=bool(statements) or test_build)


def _fits(statement: Statement, products: Sequence[str]) -> bool:
    product = statement.claim.components.get("torch_npu_product")
    return product is None or product in products


def _product_statements(query: Query, product: str) -> list[Statement]:
    version = query.claims.version("torch_npu_product", product)
    if version is None:
        return []
    index = query.claims.index("torch_npu_product", "cann")
    # 7.2.0.1 is a patch of 7.2.0: what is declared for the release holds for it.
    base = Version("product", f"{product} without patch", (*version.key[:4], 0, *version.key[5:]))
    found = {s.claim.id: s for v in (version, base) for s in index.about(v)}
    return [
        s for s in found.values() if s.scope in query.authority and not _names_other_wheel(query, s)
    ]


def _names_other_wheel(query: Query, statement: Statement) -> bool:
    """A pairing row of the same product that is about the wheel of another torch release."""
    text = statement.claim.components.get("torch_npu")
    if text is None:
        return False
    value = query.claims.version("torch_npu", text)
    return value is None or release(value) != release(query.version)


def _by_distance(query: Query, statements: Sequence[Statement]) -> Answer:
    """Nothing names the pair, but other CANN versions are declared for this wheel."""
    positive = tuple(s for s in statements if s.positive)
    values = declared_values(positive)
    versions = sorted((v for s in positive for v in s.object.values), key=lambda v: v.key)
    trains = sorted({v.train for v in versions} | {_train_of(s) for s in positive} - {()})
    here = query.found.train
    if here in trains:
        return _inside_train(query, positive, versions, values)
    ruler = known_trains(query.claims)
    newer = here > trains[-1]
    edge = trains[-1] if newer else trains[0]
    between = trains[0] < here < trains[-1]
    distance = abs(_place(ruler, here) - _place(ruler, edge))
    # Going back over a major number takes operators away that the wheel was built against.
    far = not between and (distance > query.tolerance or (not newer and here[0] < edge[0]))
    declared = _edge_text(versions, edge)
    kind = "newer" if newer else "older" if here < trains[0] else "not-listed"
    words = query.words(declared=declared, listed=", ".join(values[:4]))
    status = INCOMPATIBLE if far else UNDECLARED
    return Answer(status, positive, (Reason(kind, words),), values)


def _train_of(statement: Statement) -> tuple[int, ...]:
    """The train of a wildcard such as 9.1.X."""
    numbers = statement.object.text.split(".")
    plain = statement.object.values == () and all(part.isdigit() for part in numbers[:2])
    return (int(numbers[0]), int(numbers[1])) if plain else ()


def _place(ruler: Sequence[tuple[int, ...]], train: tuple[int, ...]) -> int:
    return sum(1 for known in ruler if known < train)


def _edge_text(versions: Sequence[Version], train: tuple[int, ...]) -> str:
    inside = [v.raw for v in versions if v.train == train]
    return inside[-1] if inside else ".".join(map(str, train)) + ".X"


def _inside_train(
    query: Query,
    positive: tuple[Statement, ...],
    versions: Sequence[Version],
    values: tuple[str, ...],
) -> Answer:
    found = query.found
    if found.is_prerelease:
        return Answer(UNDECLARED, positive, (Reason("prerelease", query.words()),), values)
    inside = [v for v in versions if v.train == found.train]
    # In the old scheme RC1 and RC2 are different deliveries: only later ones are covered.
    if not inside or found.key >= inside[0].key or found.key[2] == 2:
        declared = inside[0].raw if inside else values[0]
        return Answer(COMPATIBLE, positive, (Reason("same-train", query.words(declared=declared)),))
    words = query.words(declared=inside[0].raw)
    return Answer(UNDECLARED, positive, (Reason("older", words),), values)


def _with_other_sources(
    query: Query, answer: Answer | None, chain: tuple[Reason, ...], *, known: bool
) -> Answer:
    """Rows of other projects: they vouch for wheels that torch_npu's tables do not know, and keep
    a pair that those tables leave out from being called incompatible."""
    index = query.claims.index(query.subject, query.object)
    elsewhere = [
        s
        for s in index.about(query.version)
        if s.positive
        and s.scope not in query.authority
        and query.claims.applies(s.claim, query.context)
    ]
    hits = tuple(s for s in elsewhere if s.object.matches(query.found))
    if hits and not known:
        return Answer(COMPATIBLE, hits)
    if known and answer is None and not hits:
        return Answer(UNDECLARED, more=(*chain, Reason("unknown", query.words())))
    if hits and answer is not None and answer.status in (INCOMPATIBLE, UNDECLARED):
        words = query.words(source=hits[0].claim.citation())
        more = (*answer.more, Reason("elsewhere", words, hits[0].claim.id))
        return Answer(UNDECLARED, answer.statements, more, answer.declared)
    if hits and answer is None:
        words = query.words(source=hits[0].claim.citation())
        return Answer(UNDECLARED, hits, (*chain, Reason("elsewhere", words, hits[0].claim.id)))
    if answer is None:
        if elsewhere:
            values = declared_values(elsewhere)
            words = query.words(listed=", ".join(values[:4]))
            return Answer(UNDECLARED, tuple(elsewhere), (Reason("not-listed", words),), values)
        return Answer(UNDECLARED, more=(*chain, Reason("unknown", query.words())))
    return Answer(answer.status, answer.statements, chain + answer.more, answer.declared)


def cann_with_driver(query: Query) -> Answer | None:
    """CANN with the host's HDK. Numbers compare only inside one product line.

    What is said of this product decides first: its pairs, then the HDK that it excludes. Then the
    declared cells. A release of the train of a declared one passes. Older than a cell declared N,
    with nothing older declared Y: N as well. Everything else outside the cells is undeclared, and
    no reason to move anything: in the field old drivers often do work.
    """
    claims, product = query.claims, query.context.product
    statements = [s for s in query.statements() if _is_about_pair(s)]
    own = decide(query, [s for s in statements if "product" in s.claim.where])
    if own is not None:
        return own
    lines = hdk_lines(claims)
    against = lines.against(product, query.found)
    values = tuple(v for v in declared_values(statements) if lines.may_be(product, v))
    if against:
        more = (_state_product(query, lines),) if lines.differ(product) else ()
        return Answer(INCOMPATIBLE, against, more, values)
    in_line = lines.on_950(product)
    if in_line and not lines.has(product, query.found):
        if lines.differ(product):
            return Answer(UNDECLARED, (), (_state_product(query, lines),))
        words = query.words(listed=", ".join(_values_of(lines.lines(product))))
        return Answer(UNDECLARED, (), (Reason("not-listed", words),))
    answer = _cells(query, statements, values) or _neighbour(query, product)
    return answer if answer.status != UNDECLARED else _in_a_range(query) or answer


def _state_product(query: Query, lines: HdkLines) -> Reason:
    named = _values_of(lines.lines(query.context.product))
    return Reason("state-product", query.words(listed=", ".join(named)))


def _cells(query: Query, statements: Sequence[Statement], values: tuple[str, ...]) -> Answer | None:
    answer = decide(query, statements)
    if answer is not None:
        return answer
    train = query.found.train
    near = [s for s in statements if s.positive and any(v.train == train for v in s.object.values)]
    if near:
        return _of_one_train(query, near)
    good = [_low(s) for s in statements if s.positive]
    refused = [
        s
        for s in statements
        if not s.positive and train < _low(s) and all(_low(s) < low for low in good)
    ]
    if refused:
        words = query.words(declared=refused[0].object.text)
        return Answer(INCOMPATIBLE, tuple(refused), (Reason("older-than-excluded", words),), values)
    if not statements:
        return None
    words = query.words(listed=", ".join(values[:4]))
    positive = tuple(s for s in statements if s.positive)
    return Answer(UNDECLARED, positive, (Reason("not-listed", words),), values)


def _of_one_train(query: Query, near: Sequence[Statement]) -> Answer:
    """25.3.0 is of the train of 25.3.RC1, 25.0.RC1.1 a patch of 25.0.RC1."""
    named = next(v for s in near for v in s.object.values if v.train == query.found.train)
    more = Reason("same-train", query.words(declared=named.raw))
    return Answer(COMPATIBLE, tuple(near), (more,))


def _in_a_range(query: Query) -> Answer | None:
    """Ranges of CANN that a third product declares with ranges of HDK; no test builds."""
    if query.version.is_prerelease:
        return None
    hits = [
        s
        for s in query.statements()
        if s.positive
        and not (s.subject.is_exact or s.object.is_exact)
        and s.object.matches(query.found)
    ]
    return Answer(COMPATIBLE, tuple(hits)) if hits else None


class HdkLines:
    """Which HDK belongs to which product line: claims about an HDK on certain products."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self._allowed: dict[tuple[str | None, str], bool] = {}
        # Claims that speak of HDK and product, CANN aside.
        self._all = [
            s
            for s in claims.index("hdk", "hdk").all
            if s.scope == "cann_hdk" and "product" in s.claim.where
            and "toolbox" in s.claim.components
        ]  # fmt: skip

    def _names(self, product: str | None) -> list[str]:
        """The products that this name may mean: a family stands for its members."""
        members = self.claims.members(product) if product else []
        return members or [product or "?"]

    def lines(self, product: str | None) -> list[Statement]:
        """The HDK that are declared for these products, whatever their CANN."""
        return [
            s
            for name in self._names(product)
            for s in self._all
            if s.positive and self.claims.product_holds(s.claim.where["product"], name)
        ]

    def on_950(self, product: str | None) -> bool:
        """Whether the product has a line of its own, apart from the common HDK."""
        names = self._names(product)
        stated = [s.claim.where["product"] for s in self._all]
        apart = {name for cell in stated if not cell.startswith("!") for name in cell.split("|")}
        return bool(apart & set(names))

    def against(self, product: str | None, found: Version) -> tuple[Statement, ...]:
        """Claims that exclude this HDK, when every product that is meant excludes it."""
        answer: list[Statement] = []
        for name in self._names(product) if product else ():
            here = [
                s
                for s in self._all
                if self.claims.product_holds(s.claim.where["product"], name)
                and s.object.matches(found)
            ]
            if not here or any(s.positive for s in here):
                return ()
            answer += here
        return tuple(answer)

    def has(self, product: str | None, found: Version) -> bool:
        """Whether every product that is meant takes this HDK."""
        return all(
            any(s.object.matches(found) for s in self.lines(name)) for name in self._names(product)
        )

    def differ(self, product: str | None) -> bool:
        """Whether the product that is meant decides about the HDK."""
        sets = [tuple(_values_of(self.lines(name))) for name in self._names(product)]
        return len(set(sets)) > 1

    def may_be(self, product: str | None, text: str) -> bool:
        """Whether an HDK may be recommended: of the line of the product, of the common one while
        the product is not known."""
        place = (product, text)
        if place not in self._allowed:
            found = self.claims.version("hdk", text)
            apart = self.on_950(product)
            if found is None:
                self._allowed[place] = not apart
            elif apart:
                self._allowed[place] = self.has(product, found)
            else:
                self._allowed[place] = not self.against(product or "?", found)
        return self._allowed[place]


def hdk_lines(claims: Claims) -> HdkLines:
    """The product lines of a matrix, made once."""
    if not isinstance(claims.lines, HdkLines):
        claims.lines = HdkLines(claims)
    return claims.lines


def _values_of(statements: Sequence[Statement]) -> list[str]:
    return list(dict.fromkeys(s.object.text for s in statements))


def _is_about_pair(statement: Statement) -> bool:
    """Lists of versions that a third product supports say nothing about CANN with HDK."""
    third = {"mindcluster", "toolbox", "mindie", "mindsdk", "feature"} & set(
        statement.claim.components
    )
    return not third or (statement.claim.kind == "reference" or len(statement.subject.values) == 1)


def _low(statement: Statement) -> tuple[int, ...]:
    trains = [v.train for v in statement.object.values]
    wildcard = _train_of(statement)
    return min([*trains, *([wildcard] if wildcard else [])], default=(0, 0))


def _neighbour(query: Query, product: str | None) -> Answer:
    """No row for this CANN: the rows of its train, older ones first, say what is near."""
    index = query.claims.index(query.subject, query.object)
    near = [
        s
        for s in index.all
        if s.scope in query.authority
        and s.positive
        and _is_about_pair(s)
        and query.claims.applies(s.claim, query.context)
        and any(v.train == query.version.train for v in s.subject.values)
    ]
    lines = hdk_lines(query.claims)
    values = tuple(v for v in declared_values(near) if lines.may_be(product, v))
    if not near:
        return Answer(UNDECLARED, more=(Reason("unknown", query.words()),))
    if any(s.object.matches(query.found) for s in near) and not query.version.is_prerelease:
        words = {
            **query.words(),
            "object": query.claims.name(query.subject),
            "found": query.version.raw,
            "declared": near[0].subject.text,
        }
        hits = tuple(s for s in near if s.object.matches(query.found))
        return Answer(COMPATIBLE, hits, (Reason("same-train", words),))
    words = query.words(listed=", ".join(values[:4]))
    return Answer(UNDECLARED, tuple(near), (Reason("not-listed", words),), values)
