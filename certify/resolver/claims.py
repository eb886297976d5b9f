"""Claims ready for queries: specifications parsed, indexed by the pair that they speak of."""

from __future__ import annotations

from collections import namedtuple

from certify.resolver.model import Reason
from certify.versions import Spec, SpecError, Version, parse, parse_spec, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NamedTuple

    from certify.resolver.model import Context
    from matrices.load import Claim, Matrix

POSITIVE = ("reference", "compatible", "requirement", "pin")
NEGATIVE = ("incompatible",)
# Stands for the last release of a line that is not known by number.
_FAR = 99999


if TYPE_CHECKING:

    class _Statement(NamedTuple):
        claim: Claim
        subject: Spec
        object: Spec
        scope: str
        positive: bool
else:
    _Statement = namedtuple("_Statement", "claim subject object scope positive")


class Statement(_Statement):
    """A claim about one pair: what it says of the subject and of the object.

    scope: the file of the claim; positive: whether it says that the two go together.
    """

    __slots__ = ()


def statement(claim: Claim, subject: Spec, object_: Spec) -> Statement:
    """The statement of a claim about a pair."""
    return Statement(claim, subject, object_, claim.scope, claim.kind in POSITIVE)


# Families whose exact match follows from the first parts of the sort key; the others are scanned.
_KEYED = ("pep440", "cann", "product", "hdk")


class PairIndex:
    """The statements about one pair of components.

    exact: those whose subject names single versions, by sort key; wide: ranges and wildcards.
    """

    def __init__(self, statements: Iterable[Statement]) -> None:
        self.all: list[Statement] = list(statements)
        self.exact: dict[object, list[Statement]] = {}
        self.wide: list[Statement] = []
        self._asked: dict[str, list[Statement]] = {}
        for one in self.all:
            if one.subject.is_exact and one.subject.family in _KEYED:
                for value in one.subject.values:
                    self.exact.setdefault(_loose(value), []).append(one)
            else:
                self.wide.append(one)

    def about(self, version: Version) -> list[Statement]:
        """Statements whose subject is this version."""
        found = self._asked.get(version.raw)
        if found is None:
            found = [s for s in self.exact.get(_loose(version), ()) if s.subject.matches(version)]
            found += [s for s in self.wide if s.subject.matches(version)]
            self._asked[version.raw] = found
        return found


def _loose(version: Version) -> object:
    return version.key[:5]


class Claims:
    """Queries over a matrix, with everything parsed once and remembered."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.trains: list[tuple[int, ...]] = []
        # Made by `trains.hdk_lines` on first use.
        self.lines: object = None
        self._tags: list[Claim] | None = None
        self._wheels: dict[object, list[Claim]] | None = None
        self._indexes: dict[tuple[str, str], PairIndex] = {}
        self._versions: dict[tuple[str, str], Version | None] = {}
        self._named: dict[str, dict[str, Version]] = {}
        self._parents = {row["name"]: row["parent"] for row in matrix.tables["products"]}
        self._members: dict[str, list[str]] = {}
        self._spellings: dict[str, str] = {}
        for row in matrix.tables["products"]:
            if row["parent"] and row["english"].startswith("Atlas"):
                self._members.setdefault(row["parent"], []).append(row["name"])
            for text in (row["name"], row["english"], row["chinese"]):
                short = _squashed(text)
                for word in (short, short.removeprefix("atlas"), short.removeprefix("ascend")):
                    self._spellings.setdefault(word, row["name"])
        if self._parents.get("A5"):
            self._members["A5"] = self._members.get(self._parents["A5"], [])
        self.conflicts = {row["id"]: row for row in matrix.tables["conflicts"]}

    def index(self, subject: str, object_: str) -> PairIndex:
        """The index of one pair, built on first use."""
        found = self._indexes.get((subject, object_))
        if found is None:
            found = PairIndex(self._statements(subject, object_))
            self._indexes[subject, object_] = found
        return found

    def _statements(self, subject: str, object_: str) -> list[Statement]:
        answer = []
        for claim in self.matrix.about(subject, object_):
            if claim.kind not in POSITIVE and claim.kind not in NEGATIVE:
                continue
            try:
                mine, its = self._spec(subject, claim), self._spec(object_, claim)
            except SpecError:
                # `certify matrix lint` reports it; one bad row must not blind the others.
                continue
            if "feature" in claim.components and not (mine.is_exact and its.is_exact):
                # The least versions that a feature asks of each part pair nothing with anything.
                continue
            answer.append(statement(claim, mine, its))
        return answer

    def tags(self) -> list[Claim]:
        """The claims that tie a git_version of torch_npu to its product release."""
        if self._tags is None:
            self._tags = self.matrix.about("torch_npu_git", "torch_npu_product")
        return self._tags

    def products_by_wheel(self) -> dict[object, list[Claim]]:
        """Claims that name a wheel and its product release, by the wheel's public version."""
        if self._wheels is None:
            self._wheels = {}
            for claim in self.matrix.about("torch_npu", "torch_npu_product"):
                wheel = self.version("torch_npu", claim.components["torch_npu"])
                if wheel is not None:
                    self._wheels.setdefault(wheel.key[:5], []).append(claim)
        return self._wheels

    def specs(self, key: str) -> list[Spec]:
        """What the deciding claims say of one component, unreadable rows left out."""
        answer = []
        for claim in self.matrix.about(key):
            try:
                answer.append(self._spec(key, claim))
            except SpecError:
                continue
        return answer

    def _spec(self, key: str, claim: Claim) -> Spec:
        return parse_spec(self.matrix.family(key), claim.components[key])

    def version(self, key: str, text: str) -> Version | None:
        """A found version, parsed once; ``<2.0`` is the newest one below 2.0."""
        place = (key, text)
        if place not in self._versions:
            family = self.matrix.family(key)
            found = _beside(family, text) if text[:1] in ("<", ">") else parse(family, text)
            self._versions[place] = found
        return self._versions[place]

    def named(self, key: str) -> dict[str, Version]:
        """Every version that a current claim names for a component, then what its ranges leave
        open: ``<2.0`` where no version below 2.0 is named."""
        found = self._named.get(key)
        if found is None:
            found = self._named[key] = self._all_named(key)
        return found

    def _all_named(self, key: str) -> dict[str, Version]:
        answer: dict[str, Version] = {}
        open_ends: dict[str, None] = {}
        for claim in self.matrix.about(key):
            if claim.state != "current" or claim.kind not in POSITIVE + NEGATIVE:
                continue
            try:
                spec = self._spec(key, claim)
            except SpecError:
                continue
            if self.matrix.family(key) not in ("pep440", "python"):
                continue
            answer.update((v.raw, v) for v in (*spec.values, *spec.bounds) if not v.is_prerelease)
            # Outside an excluded range, inside a required one: either side of each end may help.
            for operator, number in spec.ends:
                if operator in ("<", ">=", "<=", ">"):
                    open_ends.setdefault(("<" if operator in ("<", ">=") else ">") + number.strip())
        for text in open_ends:
            version = self.version(key, text)
            if version is not None:
                answer[text] = version
        return answer

    def applies(self, claim: Claim, context: Context) -> bool:
        """Whether the conditions of a claim hold here.

        A condition on a product that is not known does not hold, except "all but" conditions.
        """
        for key, value in claim.where.items():
            if key == "product":
                if not self.product_holds(value, context.product):
                    return False
            elif key == "arch" and value != context.arch:
                return False
        return True

    def product_holds(self, condition: str, product: str | None) -> bool:
        """``A2|A3`` holds for these and their members, ``!950`` for everything else."""
        line = set()
        while product:
            line.add(product)
            product = self._parents.get(product)
        if condition.startswith("!"):
            return not line & set(condition[1:].split("|"))
        return bool(line & set(condition.split("|")))

    def members(self, product: str) -> list[str]:
        """The products of a family that claims tell apart, none for a single product."""
        return self._members.get(product, [])

    def product_name(self, text: str | None) -> str | None:
        """The name in products.tsv of a product as people write it (Atlas 350, 950SuperPoD)."""
        if text is None or text in self._parents:
            return text
        return self._spellings.get(_squashed(text), text)

    def reason(self, statement: Statement, subject: str, object_: str) -> Reason:
        """What one statement says, as a link of a chain."""
        claim = statement.claim
        kind = {
            "reference": "paired",
            "compatible": "declared",
            "incompatible": "excluded",
            "requirement": "required",
            "pin": "required",
        }[claim.kind]
        values = {
            "source": claim.citation(),
            "subject": self.name(subject),
            "object": self.name(object_),
            "subject_spec": statement.subject.text,
            "object_spec": statement.object.text,
        }
        return Reason(kind, values, claim.id)

    def name(self, key: str) -> str:
        """The display name of a component."""
        row = self.matrix.components.get(key)
        return row["name"] if row else key


def _squashed(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def _beside(family: str, text: str) -> Version | None:
    """The version next to the end of an open range: ``<2.0`` as 1.99999, ``>5.5.0`` as 5.5.1."""
    end = parse(family, text[1:].strip("= "))
    if end is None:
        return None
    numbers = list((*release(end), 0, 0)[:3])
    if text[0] == ">":
        numbers[-1] += 1
    else:
        place = max((i for i, number in enumerate(numbers) if number), default=0)
        numbers[place] -= 1
        numbers[place + 1 :] = [_FAR] * (len(numbers) - place - 1)
    if numbers[0] < 0:
        return None
    found = parse(family, ".".join(map(str, numbers)))
    return Version(family, text, found.key) if found else None


def claims_of(matrix: Matrix) -> Claims:
    """The prepared form of a matrix, made once."""
    if not isinstance(matrix.prepared, Claims):
        matrix.prepared = Claims(matrix)
    return matrix.prepared
