"""What a claim says about one component: an exact version, a wildcard, a range, alternatives.

====================  =========================================================================
``9.1.0``             exactly this release (local parts and build suffixes do not matter)
``8.3.RCX 9.0.X 3.2.x ==2.14.0.*``  any release of that train, no alpha or beta of it
``>=3.10,<3.13``      all the bounds
``[7.0.0,7.5.99]``    both ends included
``8.5.0|8.5.1``       any of these
``*``                 any version
``none``              the component must be absent
``@b178a3cd5``        a commit: matches no version, only the same text
====================  =========================================================================
"""

from __future__ import annotations

import re

from certify.light import lazy
from certify.versions.grammar import Version, parse, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Test = Callable[[Version], bool]

ANY = "*"
ABSENT = "none"
_OPERATORS = (">=", "<=", "==", "!=", "~=", ">", "<")
_WILD = ("x", "X", "*")
_WILDCARD = lazy(r"(?:==)?v?(\d+(?:\.\d+)*)\.(rc)?(?:x|\*)", re.IGNORECASE)
# Families whose wildcards name a train and a kind of release, not a prefix of numbers.
_RELEASE_FAMILIES = ("cann", "hdk", "product")


class SpecError(ValueError):
    """A specification that its family cannot read."""


class Spec:
    """A parsed specification. text: as written in the claim; values: its exact versions;
    bounds: released versions that its ranges include at their ends; ends: every end of its ranges
    as operator and number."""

    __slots__ = ("_tests", "absent", "bounds", "ends", "family", "text", "values")

    def __init__(self, family: str, text: str) -> None:
        self.family = family
        self.text = text
        self.absent = text == ABSENT
        self.values: tuple[Version, ...] = ()
        self.bounds: tuple[Version, ...] = ()
        self.ends: tuple[tuple[str, str], ...] = ()
        self._tests: list[Test] = []
        for part in () if self.absent else text.split("|"):
            self._add(part.strip())

    def _add(self, part: str) -> None:
        family = self.family
        wildcard = _WILDCARD.fullmatch(part) if part[-1:] in _WILD else None
        if part == ANY:
            self._tests.append(lambda version: True)
        elif family == "name" or part.startswith("@"):
            name = part.lower()
            self._tests.append(lambda version: version.raw.lower() == name)
        elif wildcard:
            self._tests.append(_wildcard(family, wildcard[1], bool(wildcard[2])))
        elif part.startswith("["):
            low, _, high = part.strip("[]").partition(",")
            self._tests.append(_all((_bound(family, ">=", low), _bound(family, "<=", high))))
        elif part[:1] in "<>=!~" and part:
            bounds = tuple(_split(bound, part) for bound in part.split(","))
            self._tests.append(_all(tuple(_bound(family, *bound) for bound in bounds)))
            self.values += _named(family, bounds, ("==",))
            self.bounds += _named(family, bounds, (">=", "<="))
            self.ends += bounds
        else:
            exact = _read(family, part)
            self.values += (exact,)
            self._tests.append(_exact(exact))

    def matches(self, version: Version) -> bool:
        """Whether this version is meant. False for a component that must be absent."""
        tests = self._tests
        # The innermost line of every query: the usual single test is called directly.
        return tests[0](version) if len(tests) == 1 else any(test(version) for test in tests)

    @property
    def is_exact(self) -> bool:
        """Whether every alternative is one exact version."""
        return bool(self.values) and len(self.values) == len(self._tests)

    def __repr__(self) -> str:
        return f"Spec({self.family!r}, {self.text!r})"


def _split(bound: str, part: str) -> tuple[str, str]:
    """Operator and number of one bound of a list."""
    text = bound.strip()
    for operator in _OPERATORS:
        number = text[len(operator) :].lstrip()
        if number and text.startswith(operator):
            return operator, number
    raise SpecError(f"{part!r} is no list of bounds")


def _named(
    family: str, bounds: tuple[tuple[str, str], ...], operators: tuple[str, ...]
) -> tuple[Version, ...]:
    found = [parse(family, number) for operator, number in bounds if operator in operators]
    return tuple(version for version in found if version is not None)


_CACHE: dict[tuple[str, str], Spec] = {}


def parse_spec(family: str, text: str) -> Spec:
    """The specification of a claim. Raises SpecError when the family cannot read it."""
    spec = _CACHE.get((family, text))
    if spec is None:
        spec = _CACHE[family, text] = Spec(family, text)
    return spec


def matches(family: str, text: str, version: str | Version) -> bool:
    """Whether a version is meant by a specification; False when it cannot be read."""
    found = parse(family, version) if isinstance(version, str) else version
    return found is not None and parse_spec(family, text).matches(found)


def _read(family: str, text: str) -> Version:
    version = parse(family, text)
    if version is None:
        raise SpecError(f"{text!r} is no {family} version")
    return version


def _all(tests: tuple[Test, ...]) -> Test:
    return lambda version: all(test(version) for test in tests)


def _exact(wanted: Version) -> Test:
    key = wanted.key
    if wanted.family == "python":
        length = len(re.findall(r"\d+", wanted.raw)) if len(key[1]) < 3 else 3
        prefix = (*key[1], 0, 0)[:length]
        return lambda version: (*version.key[1], 0, 0)[:length] == prefix
    if wanted.family == "pep440" and not key[5]:
        return lambda version: bool(version.key[:5] == key[:5])
    if wanted.family in _RELEASE_FAMILIES and not key[-1]:
        return lambda version: bool(version.key[:-1] == key[:-1])
    if wanted.family == "branch":
        return lambda version: _same_branch(version.key, key)
    return lambda version: bool(version.key == key)


def _same_branch(found: tuple[object, ...], wanted: tuple[object, ...]) -> bool:
    """The same release; the Megatron line decides only where both spell it."""
    return found[:3] == wanted[:3] and (found[3] == wanted[3] or not (found[3] and wanted[3]))


def _wildcard(family: str, numbers: str, only_candidates: bool) -> Test:
    prefix = tuple(int(part) for part in numbers.split("."))
    if family in _RELEASE_FAMILIES:
        if len(prefix) > 2:
            return lambda version: (
                release(version)[: len(prefix)] == prefix and not version.is_prerelease
            )
        return lambda version: (
            version.train == prefix
            and not version.is_prerelease
            and (version.key[2] == 1 or not only_candidates)
        )
    width = len(prefix)

    def test(version: Version) -> bool:
        padded = (*release(version), *(0,) * width)[:width]
        return padded == prefix and not version.is_prerelease

    return test


def _public(version: Version) -> tuple[object, ...]:
    return version.key[:5] if version.family in ("pep440", "python") else version.key


def _bound(family: str, operator: str, text: str) -> Test:
    wildcard = _WILDCARD.fullmatch(text) if text[-1:] in _WILD else None
    if wildcard and operator in ("==", "!="):
        inside = _wildcard(family, wildcard[1], bool(wildcard[2]))
        return inside if operator == "==" else lambda version: not inside(version)
    limit = _read(family, text)
    key = _public(limit)
    if operator == "==":
        return _exact(limit)
    if operator == "!=":
        same = _exact(limit)
        return lambda version: not same(version)
    if operator == ">=":
        return lambda version: bool(_public(version) >= key)
    if operator == ">":
        return lambda version: bool(_public(version) > key)
    if operator == "<=":
        # "<=3.12" of a Python means the whole 3.12 series.
        same = _exact(limit)
        return lambda version: bool(_public(version) <= key) or same(version)
    if operator == "<":
        # A pre-release of the excluded version is excluded with it, as in PEP 440.
        return lambda version: (
            bool(_public(version) < key)
            and not (version.is_prerelease and release(version) == release(limit))
        )
    base = release(limit)[:-1] or release(limit)
    return lambda version: bool(_public(version) >= key) and release(version)[: len(base)] == base
