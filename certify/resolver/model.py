"""What the resolver answers: judged pairs, typed reasons, changes. Rendered in `words`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    from certify.light import dataclass, field


REFERENCE = "reference"
COMPATIBLE = "compatible"
INCOMPATIBLE = "incompatible"
UNDECLARED = "undeclared"


@dataclass(frozen=True)
class Context:
    """What decides which claims apply. product: a name of products.tsv (A2, A3, 950, Atlas350);
    arch: x86_64 or aarch64; model_type: of the recipe; each None when unknown."""

    product: str | None = None
    arch: str | None = None
    model_type: str | None = None


@dataclass(frozen=True)
class Reason:
    """One link of the chain. kind: a key of `certify.resolver.words.SENTENCES`; values: what its
    sentence names; claim: id of the claim that says so, empty for a conclusion of ours."""

    kind: str
    values: dict[str, str]
    claim: str = ""


@dataclass(frozen=True)
class PairResult:
    """Two components judged by what is published about them (fields: see the package)."""

    rule: str
    status: str
    components: tuple[str, str]
    found: dict[str, str]
    expected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    why: tuple[Reason, ...] = ()
    conflict: str = ""


@dataclass(frozen=True)
class Change:
    """One component to move. found is empty when it has to be installed; commands: lines that can
    be pasted; stops_jobs: running jobs on the machine end with it."""

    component: str
    found: str
    target: str
    cost: int
    layer: str
    why: str
    commands: tuple[str, ...] = ()
    stops_jobs: bool = False


@dataclass(frozen=True)
class Resolution:
    """The cheapest way to a declared row.

    changes: in the order to carry them out; cost: their sum; row: the target stack; level:
    ``reference`` or ``compatible`` (declared for all pairs), ``undeclared`` (some pair stays
    undeclared: see undeclared) or ``none`` (no row reaches it, see blocked); stays: component ->
    ``reference``, ``declared`` or ``undeclared`` with the target; claims: what the row rests on.
    """

    changes: tuple[Change, ...]
    cost: int
    row: dict[str, str]
    level: str
    stays: dict[str, str] = field(default_factory=dict)
    undeclared: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
