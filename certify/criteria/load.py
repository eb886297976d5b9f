"""The published criteria: read strictly from a TOML file, immutable, known by their sha256.

`v1.toml` has one row per threshold, gate, class of parameters and claim. Nothing that decides a
verdict is written in code: gates ask `Limits` for their numbers by name.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from typing import TYPE_CHECKING, Any

from certify.criteria.statistics.intervals import Blocks
from certify.errors import UsageError
from certify.runspec import from_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "certify.criteria/1"
SCALES = ("tiny", "reduced", "full")
STAGES = ("pretrain", "sft")
PRECISIONS = ("fp32", "bf16")
# on-request: required when the plan asks for the gate (`certify run --phases GATE`);
# reported: measured and shown, decides nothing.
STATUSES = ("required", "on-request", "reported", "not-required")
ANY = "any"


@dataclass(frozen=True)
class Threshold:
    """One number that decides a verdict, with its reason and where it comes from.

    precision, stage, scale: where it applies (``any``: wherever no row names it more closely).
    """

    gate: str
    name: str
    value: float
    unit: str
    reason: str
    source: str
    precision: str = ANY
    stage: str = ANY
    scale: str = ANY


@dataclass(frozen=True)
class Requirement:
    """Whether a gate is required at a scale. waived: checks taken over from another scale."""

    scale: str
    status: str
    reason: str
    stage: str = ANY
    waived: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gate:
    """One criterion. rule: what it demands; meaning: what its FAIL usually means."""

    id: str
    title: str
    rule: str
    meaning: str
    requirement: tuple[Requirement, ...]


@dataclass(frozen=True)
class Names:
    """A list of names a gate goes by. when: always | moe | dense."""

    gate: str
    name: str
    values: tuple[str, ...]
    reason: str
    when: str = "always"


@dataclass(frozen=True)
class Claim:
    """What a pass at a scale says (``{device}`` is filled in), and what it does not."""

    scale: str
    says: str
    limits: str


@dataclass(frozen=True)
class _File:
    schema: str
    version: str
    gate: tuple[Gate, ...]
    threshold: tuple[Threshold, ...]
    names: tuple[Names, ...]
    claim: tuple[Claim, ...]


@dataclass(frozen=True)
class Criteria:
    """One published version. sha256: of the file's bytes; gates are in the order of the table."""

    version: str
    sha256: str
    gates: tuple[Gate, ...]
    thresholds: tuple[Threshold, ...]
    names: tuple[Names, ...]
    claims: tuple[Claim, ...]

    def requirement(self, gate: str, scale: str, stage: str) -> Requirement:
        """The row that says whether a gate is required."""
        rows = next(g for g in self.gates if g.id == gate).requirement
        return next(
            r for r in (*_named(rows), *rows) if r.scale == scale and r.stage in (stage, ANY)
        )

    def claim(self, scale: str) -> Claim:
        """What a pass at this scale says."""
        return next(c for c in self.claims if c.scale == scale)


def _named(rows: tuple[Requirement, ...]) -> list[Requirement]:
    return [row for row in rows if row.stage != ANY]


@dataclass(frozen=True)
class Limits:
    """The thresholds of one gate for one campaign."""

    criteria: Criteria
    gate: str
    scale: str
    stage: str
    precision: str
    moe: bool

    def find(self, name: str) -> Threshold | None:
        """The row that applies, or None when the criteria have none for this case."""
        rows = [
            row
            for row in self.criteria.thresholds
            if row.gate == self.gate and row.name == name and self._applies(row)
        ]
        return max(rows, key=_closeness, default=None)

    def __getitem__(self, name: str) -> Threshold:
        """The row that applies. Raises KeyError when the criteria lack it (a defect of theirs)."""
        found = self.find(name)
        if found is None:
            raise KeyError(f"criteria {self.criteria.version} have no row {self.gate}/{name}")
        return found

    def value(self, name: str) -> float:
        """The number of the row that applies."""
        return self[name].value

    def whole(self, name: str) -> int:
        """The number of the row that applies, a whole one (steps, counts)."""
        return int(self[name].value)

    def blocks(self) -> Blocks:
        """The block rule of this gate's intervals."""
        return Blocks(
            self.whole("block-steps"), self.whole("most-blocks"), self.whole("fewest-blocks")
        )

    def names(self, name: str) -> tuple[str, ...]:
        """The listed names of this gate that apply to a dense or an MoE model."""
        when = ("always", "moe" if self.moe else "dense")
        return tuple(
            value
            for row in self.criteria.names
            if row.gate == self.gate and row.name == name and row.when in when
            for value in row.values
        )

    def waived(self, check: str) -> bool:
        """Whether this scale takes the check over from another one."""
        return check in self.criteria.requirement(self.gate, self.scale, self.stage).waived

    def _applies(self, row: Threshold) -> bool:
        return (
            row.precision in (self.precision, ANY)
            and row.stage in (self.stage, ANY)
            and row.scale in (self.scale, ANY)
        )


def _closeness(row: Threshold) -> int:
    return sum(value != ANY for value in (row.precision, row.stage, row.scale))


def _error(what: str, where: str, expected: str | None = None) -> UsageError:
    return UsageError(what, where=where, expected=expected, hint="install ascend-certify again")


def parse(data: bytes, where: str) -> Criteria:
    """Criteria from the bytes of a file. where: its name in messages.

    Raises UsageError for an unknown or missing key, a value out of its list, two rows that apply
    to the same case, a gate without exactly one requirement for a scale and stage, or a row of a
    gate that does not exist.
    """
    try:
        body = tomllib.loads(data.decode("utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise _error(f"the criteria are not TOML: {error}", where) from None
    file = from_json(_File, body, where)
    if file.schema != SCHEMA:
        raise _error(f"criteria of schema {file.schema!r}", where, repr(SCHEMA))
    criteria = Criteria(
        version=file.version,
        sha256=hashlib.sha256(data).hexdigest(),
        gates=file.gate,
        thresholds=file.threshold,
        names=file.names,
        claims=file.claim,
    )
    for problem in _problems(criteria):
        raise _error(problem, where)
    return criteria


def _problems(criteria: Criteria) -> Iterator[str]:
    ids = [gate.id for gate in criteria.gates]
    yield from (f"gate {i!r} is listed twice" for i in sorted(set(ids)) if ids.count(i) > 1)
    rows: tuple[Threshold | Names, ...] = (*criteria.thresholds, *criteria.names)
    for row in rows:
        if row.gate not in ids:
            yield f"row {row.gate}/{row.name} belongs to no gate"
        if not row.reason.strip():
            yield f"row {row.gate}/{row.name} gives no reason"
    yield from _threshold_problems(criteria)
    for gate, scale, stage in product(criteria.gates, SCALES, STAGES):
        found = [r for r in gate.requirement if r.scale == scale and r.stage in (stage, ANY)]
        named = _named(tuple(found))
        if len(named) > 1 or (not named and len(found) != 1):
            yield f"gate {gate.id} has {len(found)} requirements for {scale} {stage}"
        for r in found:
            if r.status not in STATUSES or not r.reason.strip():
                yield f"gate {gate.id}, {scale}: status {r.status!r} or its reason"
    if sorted(c.scale for c in criteria.claims) != sorted(SCALES):
        yield "claims must name every scale once"


def _threshold_problems(criteria: Criteria) -> Iterator[str]:
    allowed = {"precision": PRECISIONS, "stage": STAGES, "scale": SCALES}
    seen: set[tuple[str, ...]] = set()
    for row in criteria.thresholds:
        for key, values in allowed.items():
            if getattr(row, key) not in (*values, ANY):
                yield f"row {row.gate}/{row.name}: {key} {getattr(row, key)!r}"
        if not row.source.strip() or not row.unit.strip():
            yield f"row {row.gate}/{row.name} lacks its source or unit"
        address = (row.gate, row.name, row.precision, row.stage, row.scale)
        if address in seen:
            yield f"row {row.gate}/{row.name} is listed twice for the same case"
        seen.add(address)
    for row in criteria.thresholds:
        for other in criteria.thresholds:
            if row is not other and _clash(row, other):
                yield f"rows of {row.gate}/{row.name} overlap and none is closer"


def _clash(row: Threshold, other: Threshold) -> bool:
    """Two rows of one name that apply to a common case and name it equally closely."""
    if (row.gate, row.name) != (other.gate, other.name) or _closeness(row) != _closeness(other):
        return False
    return all(
        getattr(row, key) == getattr(other, key) or ANY in (getattr(row, key), getattr(other, key))
        for key in ("precision", "stage", "scale")
    )


@cache
def load_criteria(version: str = "v1") -> Criteria:
    """A published version, from the package's own data."""
    file = resources.files("certify.criteria") / f"{version}.toml"
    try:
        data = file.read_bytes()
    except OSError:
        raise UsageError(f"unknown criteria {version!r}", expected="v1") from None
    return parse(data, f"{version}.toml")


def required_gates(criteria: Criteria, scale: str, stage: str) -> frozenset[str]:
    """The gates without which a campaign of this scale and stage cannot pass."""
    return frozenset(
        gate.id
        for gate in criteria.gates
        if criteria.requirement(gate.id, scale, stage).status == "required"
    )


def limits_of(criteria: Criteria, gate: str, case: Any) -> Limits:
    """Limits of a gate for a plan (anything with scale, stage, precision, moe)."""
    return Limits(criteria, gate, case.scale, case.stage, case.precision, case.moe)
