"""Evidence: the records of a campaign's runs, typed and sorted by phase.

Reading is here (`read_evidence`); everything else is pure and knows nothing of folders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from certify import records
from certify.criteria.plan import MOST_RANKS, SIDES
from certify.errors import UsageError
from certify.records import Comparison, Component, End, Environment, Modules, State, Step

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from certify.criteria.plan import Plan
    from certify.records import RecordFile

R = TypeVar("R")
# Streams of the processes that watch a run and attack it.
BESIDE = ("injector", "heartbeat")


@dataclass(frozen=True)
class Run:
    """One run. files: its rank files, by rank; controls: stream name without ``control-`` ->
    rank files; attempts: how often it was started (the last attempt counts); beside: streams that
    other processes wrote about the run (``injector``, ``heartbeat``)."""

    run_id: str
    files: tuple[RecordFile, ...]
    controls: Mapping[str, tuple[RecordFile, ...]] = field(default_factory=dict)
    attempts: int = 1
    beside: Mapping[str, tuple[RecordFile, ...]] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """Number of ranks, as the live process group reported it to the header."""
        return self.files[0].header.world_size

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks that left no file."""
        return sorted(set(range(self.world_size)) - {f.header.rank for f in self.files})

    @property
    def steps(self) -> dict[int, Step]:
        """Steps of the lowest rank; `plan-followed` shows that all ranks say the same."""
        return self.files[0].steps()

    @property
    def finished(self) -> bool:
        """Every rank that left a file wrote that it completed."""
        ends = [file.last(End) for file in self.files]
        return all(end is not None and end.status == "completed" for end in ends)

    def first(self, kind: type[R]) -> R | None:
        """The first record of a kind, ranks in order."""
        return next((r for file in self.files for r in file.of(kind)), None)

    def component(self, part: str) -> Component | None:
        """Whose code a part of this run is."""
        found = (c for file in self.files for c in file.of(Component) if c.part == part)
        return next(found, None)

    def components(self) -> list[Component]:
        """All components of the lowest rank."""
        return self.files[0].of(Component)

    def states(self, at: str, step: int | None = None) -> list[tuple[int, State]]:
        """(rank, state) at a point of the run, over all ranks."""
        return [
            (file.header.rank, state)
            for file in self.files
            for state in file.of(State)
            if state.at == at and (step is None or state.step == step)
        ]

    def digests(self, at: str, step: int | None = None) -> dict[str, str]:
        """part -> digest at a point, all ranks together; ranks that contradict each other are
        shown as two parts, so that they never look equal to anything."""
        found: dict[str, str] = {}
        for rank, state in self.states(at, step):
            for part, digest in state.digests.items():
                if found.setdefault(part, digest) != digest:
                    found[f"{part} (rank {rank})"] = digest
        return found

    @property
    def environment(self) -> Environment | None:
        """The environment of the lowest rank."""
        return self.first(Environment)

    @property
    def modules(self) -> Modules | None:
        """What the lowest rank had imported and trained."""
        return self.first(Modules)


@dataclass(frozen=True)
class Evidence:
    """runs: phase -> run, phases without records left out; pairs: further seeds as
    (candidate, reference); hops: run id in the plan -> run of another layout."""

    runs: Mapping[str, Run]
    pairs: tuple[tuple[Run, Run], ...] = ()
    hops: Mapping[str, Run] = field(default_factory=dict)

    def run(self, phase: str) -> Run | None:
        """The run of a phase, or None when it left no records."""
        return self.runs.get(phase)

    def comparison(self, gate: str) -> Comparison | None:
        """The last comparison written for a gate."""
        run = self.run("compare")
        if run is None:
            return None
        found = [c for file in run.files for c in file.of(Comparison) if c.gate == gate]
        return found[-1] if found else None


def _cut_off(phase: str, run: Run) -> list[str]:
    files = [*run.files, *(file for stream in run.controls.values() for file in stream)]
    return [
        f"{phase}: the last line of {run.run_id}/records/{file.path.name} was cut off and is left "
        f"out"
        for file in files
        if file.truncated
    ]


def _taken_over(phase: str, run: Run) -> list[str]:
    others = sorted({file.header.run_id for file in run.files} - {run.run_id})
    return [f"{phase}: its records say that they are of the run {other}" for other in others]


def notes(evidence: Evidence) -> tuple[str, ...]:
    """What a reader must know of the files: cut-off last lines, records of another run (a
    reference that was taken from the cache)."""
    runs = sorted(evidence.runs.items())
    for n, pair in enumerate(evidence.pairs, start=1):
        runs += [(f"pair {n} {side}", run) for side, run in zip(SIDES, pair, strict=True)]
    runs += sorted(evidence.hops.items())
    return tuple(
        note for name, run in runs for note in _cut_off(name, run) + _taken_over(name, run)
    )


def _last_attempt(runs: Path, run_id: str) -> tuple[Path, int]:
    """The folder of the last attempt (``RUN``, ``RUN-a2``, ``RUN-a3`` ...) and its number."""
    first = re.sub(r"-a\d+$", "", run_id)
    pattern = re.compile(re.escape(first) + r"-a(\d+)")
    found = [(1, first)]
    if runs.is_dir():
        names = (path.name for path in runs.iterdir())
        found += [(int(match[1]), match[0]) for name in names if (match := pattern.fullmatch(name))]
    number, name = max(found)
    return runs / name, number


# Whole numbers beyond this are no count, and no float can hold all of them.
_LARGEST = 2**63


def _fault(file: RecordFile) -> str | None:
    """What the record reader does not look at: the insides of containers, the size of numbers,
    and the rank."""
    for step in file.of(Step):
        for name, value in vars(step).items():
            if isinstance(value, int) and abs(value) > _LARGEST:
                return f"step.{name} is too large a number"
    if not 1 <= file.header.world_size <= MOST_RANKS:
        return f"header.world_size is {file.header.world_size}"
    if file.path.stem.rsplit("-", 1)[-1] != f"{file.header.rank:05d}":
        return f"its header says rank {file.header.rank}"
    for comparison in file.of(Comparison):
        tables = {"values": comparison.values, **comparison.classes}
        for table, values in tables.items():
            if not isinstance(values, dict):
                return f"{comparison.gate}: {table} is not an object"
            for name, value in values.items():
                if isinstance(value, int) and abs(value) > _LARGEST:
                    return f"{comparison.gate}: {table}.{name} is too large a number"
                if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
                    return f"{comparison.gate}: {table}.{name} is {value!r}, not a number"
    for state in file.of(State):
        for part, digest in state.digests.items():
            if not isinstance(digest, str):
                return f"state at {state.at}: {part} is {digest!r}, not a digest"
    modules = [name for m in file.of(Modules) for name in (*m.loaded, *m.trained_classes)]
    if wrong := [name for name in modules if not isinstance(name, str)]:
        return f"modules: {wrong[0]!r} is not a name"
    return None


def _read_files(folder: Path, stream: str = "rank") -> tuple[RecordFile, ...]:
    files = tuple(records.read_run(folder, stream))
    for file in files:
        if (what := _fault(file)) is not None:
            raise UsageError(
                f"malformed record: {what}",
                where=str(file.path),
                expected=f"records as in {records.SCHEMA}",
                hint="the file was changed or is not a record file; run the phase again",
            )
    return files


def _read_run(runs: Path, run_id: str) -> Run | None:
    folder, attempts = _last_attempt(runs, run_id)
    files = _read_files(folder)
    if not files:
        return None
    controls = {
        stream.removeprefix("control-"): _read_files(folder, stream)
        for stream in records.control_streams(folder)
    }
    beside = {s: found for s in BESIDE if (found := _read_files(folder, s))}
    return Run(folder.name, files, controls, attempts, beside)


def read_evidence(campaign: Path, plan: Plan) -> Evidence:
    """Read the records that a plan's runs left. A run without records is left out.

    Raises UsageError naming file and line for a malformed record.
    """
    folder = campaign / "runs"
    read = {phase: _read_run(folder, run_id) for phase, run_id in plan.runs.items()}
    pairs = [(_read_run(folder, p.candidate), _read_run(folder, p.reference)) for p in plan.pairs]
    further = [hop.run for hop in (plan.reshard.hops if plan.reshard else ())]
    further += [leg.run for leg in (plan.crossing.legs if plan.crossing else ())]
    if (up := plan.upgrade) is not None:
        further += [up.before, up.before_again, up.after]
    hops = {run_id: _read_run(folder, run_id) for run_id in further}
    return Evidence(
        {phase: run for phase, run in read.items() if run is not None},
        tuple((a, b) for a, b in pairs if a is not None and b is not None),
        {name: run for name, run in hops.items() if run is not None},
    )
