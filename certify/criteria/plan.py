"""The plan of a campaign: what it said, before launch, that its runs would do."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from certify.criteria.load import PRECISIONS, SCALES, STAGES
from certify.errors import UsageError
from certify.json_text import load_json
from certify.runspec import from_json, to_json

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.campaign-plan/1"
SIDES = ("candidate", "reference")
# More ranks than any machine has: such a number is damage.
MOST_RANKS = 2**20


@dataclass(frozen=True)
class PlannedStep:
    """What a step must use. step counts from 1; batch: index in the data order (default
    step - 1)."""

    step: int
    lr: float
    tokens: int
    supervised_tokens: int
    tokens_sha256: str
    mask_sha256: str
    batch: int | None = None


@dataclass(frozen=True)
class Expected:
    """weights_digest: of the initial parameters; effective: hyper-parameters as the live objects
    of both sides must report them."""

    weights_digest: str
    steps: tuple[PlannedStep, ...]
    effective: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedResume:
    """One resume from a checkpoint. save_point: early | after-warmup | epoch-boundary;
    phase: the phase whose run resumes; steps: how many it trains."""

    save_step: int
    steps: int
    save_point: str
    controls: tuple[str, ...] = ()
    phase: str = "resume"


@dataclass(frozen=True)
class PlannedHop:
    """A layout that a checkpoint is loaded in. run: its run id; sizes: of the parallel dimensions,
    as the run spec names them (``fsdp_size``)."""

    run: str
    world_size: int
    sizes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedReshard:
    """The chain of layouts after the candidate's own, each loading what the one before it saved."""

    save_step: int
    hops: tuple[PlannedHop, ...]


@dataclass(frozen=True)
class PlannedInjection:
    """One thing that is done to a run from outside. rank, mark: to whom, and where in a step it
    is then (`certify.records.stamps`)."""

    number: int
    kind: str
    rank: int
    mark: str


@dataclass(frozen=True)
class PlannedWorkerLoss:
    """A run that is attacked. agent: who starts lost ranks again; save_every: steps between two
    saves; heartbeat_s: after which a rank without progress counts as lost."""

    agent: str
    save_every: int
    heartbeat_s: float
    last_step: int
    injections: tuple[PlannedInjection, ...]


@dataclass(frozen=True)
class PlannedLeg:
    """One run of a crossing between backends. run: its run id."""

    name: str
    run: str
    backend: str
    world_size: int


@dataclass(frozen=True)
class PlannedCrossing:
    """The legs of a crossing, in order. save_step: of the candidate's checkpoint that leaves."""

    save_step: int
    legs: tuple[PlannedLeg, ...]


@dataclass(frozen=True)
class PlannedUpgrade:
    """A checkpoint of one stack continued on another. before, before_again, after: run ids;
    from_stack, to_stack: distribution -> version; the rest as in `PlannedResume`."""

    before: str
    before_again: str
    after: str
    save_step: int
    steps: int
    save_point: str
    controls: tuple[str, ...]
    from_stack: dict[str, Any]
    to_stack: dict[str, Any]


@dataclass(frozen=True)
class PlannedPair:
    """A further seed: run ids of its two sides."""

    seed: int
    candidate: str
    reference: str


@dataclass(frozen=True)
class PlannedSide:
    """What a side runs on. backend: fsdp2 | mcore; world_size: number of its ranks."""

    backend: str
    world_size: int


@dataclass(frozen=True)
class PlannedSides:
    """Both sides of the comparison."""

    candidate: PlannedSide
    reference: PlannedSide


@dataclass(frozen=True)
class PlannedFault:
    """A fault that is seeded on purpose into one side: such a campaign claims nothing."""

    side: str
    name: str


@dataclass(frozen=True)
class CriteriaId:
    """The criteria that were in force when the plan was made."""

    version: str
    sha256: str


@dataclass(frozen=True)
class Plan:
    """See docs/criteria.md. runs: phase -> run id; requested: gates asked for with ``--phases``,
    hence required; resume: an object or a list of them in JSON; sides: None in a plan that does
    not say what its sides run on, which cannot PASS; inject: the seeded fault, if any; only: the
    gates that are judged where no whole comparison was run: such a verdict claims nothing."""

    campaign_id: str
    recipe_id: str
    scale: str
    stage: str
    device: str
    precision: str
    moe: bool
    criteria: CriteriaId
    runs: dict[str, str]
    expected: Expected
    resume: tuple[PlannedResume, ...] = ()
    requested: tuple[str, ...] = ()
    pairs: tuple[PlannedPair, ...] = ()
    sides: PlannedSides | None = None
    inject: PlannedFault | None = None
    reshard: PlannedReshard | None = None
    worker_loss: PlannedWorkerLoss | None = None
    crossing: PlannedCrossing | None = None
    upgrade: PlannedUpgrade | None = None
    only: tuple[str, ...] = ()
    schema: str = SCHEMA

    def text(self) -> str:
        """The JSON text of the plan."""
        return to_json(self) + "\n"


def _known(cls: Any, body: Any) -> Any:
    """A plan may say more than the judge reads (commands, estimates): those keys are dropped."""
    if not isinstance(body, dict):
        return body
    names = {f.name for f in dataclasses.fields(cls)}
    return {key: value for key, value in body.items() if key in names}


def _list(cls: Any, body: Any) -> Any:
    return [_known(cls, item) for item in body] if isinstance(body, list) else body


def parse_plan(body: Any, where: str) -> Plan:
    """A plan from parsed JSON. Raises UsageError naming the key at fault."""
    body = _known(Plan, body)
    if isinstance(body, dict):
        resume = body.get("resume")
        body["resume"] = [] if resume is None else resume if isinstance(resume, list) else [resume]
        body["resume"] = _list(PlannedResume, body["resume"])
        body["pairs"] = _list(PlannedPair, body.get("pairs") or [])
        body["criteria"] = _known(CriteriaId, body.get("criteria"))
        body["inject"] = _known(PlannedFault, body.get("inject"))
        reshard = _known(PlannedReshard, body.get("reshard"))
        if isinstance(reshard, dict) and "hops" in reshard:
            reshard["hops"] = _list(PlannedHop, reshard["hops"])
        body["reshard"] = reshard
        attacked = _known(PlannedWorkerLoss, body.get("worker_loss"))
        if isinstance(attacked, dict) and "injections" in attacked:
            attacked["injections"] = _list(PlannedInjection, attacked["injections"])
        body["worker_loss"] = attacked
        crossing = _known(PlannedCrossing, body.get("crossing"))
        if isinstance(crossing, dict) and "legs" in crossing:
            crossing["legs"] = _list(PlannedLeg, crossing["legs"])
        body["crossing"] = crossing
        body["upgrade"] = _known(PlannedUpgrade, body.get("upgrade"))
        sides = _known(PlannedSides, body.get("sides"))
        if isinstance(sides, dict):
            sides = {key: _known(PlannedSide, side) for key, side in sides.items()}
        body["sides"] = sides
        expected = _known(Expected, body.get("expected"))
        if isinstance(expected, dict) and "steps" in expected:
            expected["steps"] = _list(PlannedStep, expected["steps"])
        body["expected"] = expected
    try:
        plan = from_json(Plan, body, where)
    except OverflowError:
        raise UsageError("a number is too large", where=where) from None
    if plan.schema != SCHEMA:
        raise UsageError(f"plan of schema {plan.schema!r}", where=where, expected=repr(SCHEMA))
    for key, allowed in (("scale", SCALES), ("stage", STAGES), ("precision", PRECISIONS)):
        if getattr(plan, key) not in allowed:
            raise UsageError(
                f"{key} is {getattr(plan, key)!r}", where=where, expected=", ".join(allowed)
            )
    for key, value in plan.runs.items():
        if not isinstance(value, str):
            raise UsageError(f"runs.{key} is {value!r}", where=where, expected="a run id")
    _check_sides(plan, where)
    numbers = [step.step for step in plan.expected.steps]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise UsageError(
            "expected.steps do not count 1, 2, 3 ...", where=where, expected="every step, in order"
        )
    return plan


def _check_sides(plan: Plan, where: str) -> None:
    if plan.inject is not None and plan.inject.side not in SIDES:
        raise UsageError(
            f"inject.side is {plan.inject.side!r}", where=where, expected=", ".join(SIDES)
        )
    for name in SIDES if plan.sides is not None else ():
        size = getattr(plan.sides, name).world_size
        if not 1 <= size <= MOST_RANKS:
            raise UsageError(
                f"sides.{name}.world_size is {size}", where=where, expected="a number of ranks"
            )


def read_plan(path: Path) -> Plan:
    """Read ``plan.json``. Raises UsageError naming file and key."""
    try:
        body = load_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read the plan: {error.strerror}",
            where=str(path),
            expected="a campaign folder, as certify run --out DIR writes it",
            hint="certify judge DIR needs the folder that holds plan.json and runs/",
        ) from None
    except ValueError as error:
        raise UsageError(f"the plan is not JSON: {error}", where=str(path)) from None
    except RecursionError:
        raise UsageError("the plan is nested too deeply", where=str(path)) from None
    return parse_plan(body, str(path))
