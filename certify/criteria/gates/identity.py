"""Whose records these are: each file is of the run, side, backend and rank that the plan names,
no run stands in for another one, and the two sides do not share the code they are compared on.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from certify.criteria.case import SIDES, Case, resumed_phases, side_of, trained
from certify.criteria.outcome import Check, none_of, reported, undecided
from certify.records import Component, Header, Modules, Topology

if TYPE_CHECKING:
    from certify.criteria.evidence import Run
    from certify.criteria.plan import PlannedSide
    from certify.records import RecordFile

# Backend -> the package whose stock code it is.
_STOCK = {"mcore": "megatron"}
# The backend that trains the candidate's own stock class in a loop of one process.
_PLAIN = "plain"
_OWN = "runner"
_REFERENCE_PARTS = ("model", "optimizer", "scheduler")
_INDEPENDENT_PARTS = ("model", "optimizer")


def identity_checks(case: Case) -> list[Check]:
    """One check for each run that left records, and its ranks and topology."""
    checks = []
    if case.plan.sides is None:
        checks.append(undecided("sides", "the plan does not say what its two sides run on"))
    resumed = resumed_phases(case)
    for phase, run in _runs(case):
        side = "candidate" if phase in resumed else side_of(phase)
        role = "compare" if phase == "compare" else side
        planned = None
        if side is not None and case.plan.sides is not None:
            planned = getattr(case.plan.sides, side)
        streams = [*run.files, *(f for files in run.controls.values() for f in files)]
        wrong = [w for f in streams for w in _header_departures(phase, run, f, role, planned)]
        wrong += _one_run(phase, run)
        checks.append(none_of(f"{phase}: identity", wrong, len(streams), "records of this run"))
        if side is not None:
            world = run.world_size if planned is None else planned.world_size
            checks += [_ranks_check(phase, run, world), _topology_check(phase, run, world)]
    return checks


def _runs(case: Case) -> list[tuple[str, Run]]:
    found = [(phase, case.evidence.run(phase)) for phase in sorted(case.plan.runs)]
    return [(phase, run) for phase, run in found if run is not None]


def _header_departures(
    phase: str, run: Run, file: RecordFile, role: str | None, planned: PlannedSide | None
) -> list[str]:
    where, wrong = f"{phase} {file.path.stem}", []
    for header in file.of(Header):
        if header.run_id != run.run_id and not _taken_over(phase, header.run_id):
            wrong.append(f"{where}: its header is of run {header.run_id}, planned {run.run_id}")
        if header.rank != file.header.rank:
            wrong.append(f"{where}: headers of ranks {file.header.rank} and {header.rank}")
        if role is not None and header.role != role:
            wrong.append(f"{where}: role is {header.role}, plan {role}")
        for key in () if planned is None else ("backend", "world_size"):
            found, expected = getattr(header, key), getattr(planned, key)
            if found != expected:
                wrong.append(f"{where}: {key} is {found}, plan {expected}")
    return wrong


def _taken_over(phase: str, run_id: str) -> bool:
    """A reference may be taken from an earlier campaign, from a run of the same phase; the
    verdict notes it."""
    return side_of(phase) == "reference" and bool(
        re.fullmatch(rf".+-{re.escape(phase)}(-a\d+)?", run_id)
    )


def _one_run(phase: str, run: Run) -> list[str]:
    names = sorted({header.run_id for file in run.files for header in file.of(Header)})
    return [f"{phase}: its ranks are of the runs {' and '.join(names)}"] if len(names) > 1 else []


def _ranks_check(phase: str, run: Run, world: int) -> Check:
    """The ranks are 0 to world - 1, each once."""
    found = [file.header.rank for file in run.files]
    wrong = [f"{phase}: rank {r} beside a world of {world}" for r in found if not 0 <= r < world]
    wrong += [f"{phase}: two files of rank {r}" for r in sorted(set(found)) if found.count(r) > 1]
    missing = sorted(set(range(world)) - set(found))
    if missing and not wrong:
        return undecided(f"{phase}: ranks", f"{phase} has no records of rank {missing[0]}")
    return none_of(f"{phase}: ranks", wrong, world, "every rank left records")


def _topology_check(phase: str, run: Run, world: int) -> Check:
    name, wrong, absent = f"{phase}: topology", [], []
    for file in run.files:
        found = file.of(Topology)
        if not found:
            absent.append(file.header.rank)
        for topology in found:
            if topology.world_size != world:
                wrong.append(
                    f"{phase} rank {file.header.rank}: its process group has "
                    f"{topology.world_size} ranks, planned {world}"
                )
            if topology.groups.get("world", list(range(world))) != list(range(world)):
                where = f"{phase} rank {file.header.rank}"
                wrong.append(f"{where}: its world group is not ranks 0 to {world - 1}")
    if absent and not wrong:
        return undecided(name, f"{phase} rank {absent[0]} recorded no topology")
    return none_of(name, wrong, len(run.files), "process groups as planned")


def freshness_checks(case: Case) -> list[Check]:
    """Runs of different phases are different processes, and none is a copy of another."""
    runs, wrong = _runs(case), []
    seen: dict[tuple[int, str], tuple[str, int]] = {}
    for phase, run in runs:
        for file in run.files:
            own = (phase, file.header.rank)
            for header in file.of(Header):
                # As text: a NaN is equal to its own copy.
                other = seen.setdefault((header.pid, repr(header.start_unix_s)), own)
                if other != own:
                    wrong.append(
                        f"{phase} rank {own[1]} and {other[0]} rank {other[1]} are one process "
                        f"(pid {header.pid}): not a repetition"
                    )
    for (_, one, first), (_, two, second) in combinations(trained(case), 2):
        if any(_copied(a, b) for a in first.files for b in second.files):
            wrong.append(f"{two} has the step times of {one}: a copy, not a repetition")
    return [none_of("fresh runs", wrong, len(runs), "every run is a process of its own")]


def _copied(a: RecordFile, b: RecordFile) -> bool:
    """Nobody measures the same times twice, whatever else agrees bit for bit."""
    first, second = a.steps(), b.steps()
    common = sorted(set(first) & set(second))
    return bool(common) and all(first[s].step_time_s == second[s].step_time_s for s in common)


def independence_checks(case: Case) -> list[Check]:
    """Two sides that are compared must not share the code they are compared on."""
    runs = {side: [run for s, _, run in trained(case) if s == side] for side in SIDES}
    if not all(runs.values()):
        return []
    parts = {side: _parts(runs[side]) for side in SIDES}
    sides = case.plan.sides
    plain = sides is not None and sides.reference.backend == _PLAIN
    if sides is not None and plain and sides.candidate.backend not in _STOCK:
        return [_one_class(parts, _shared_backend(runs))]
    stock = _STOCK.get(runs["reference"][0].files[0].header.backend)
    tops = {
        side: {part.module.split(".")[0] for part in parts[side] if part.part == "model"}
        for side in SIDES
    }
    wrong = [*_shared_backend(runs), *_shared_code(parts), *_not_stock(parts["reference"], stock)]
    packages = tops["reference"] | ({stock} if stock else set())
    lacking = []
    for side, phase, run in trained(case):
        for file in run.files:
            where = f"{phase} rank {file.header.rank}"
            lacking += [f"{where} did not record {what}" for what in _lacking(file, side, stock)]
            if side == "candidate":
                wrong += [f"{where}: {what}" for what in _loaded(file, packages)]
            else:
                wrong += [f"{where}: {what}" for what in _trained(file, tops["candidate"])]
    name = "independent sides"
    if lacking and not wrong:
        return [undecided(name, lacking[0])]
    names = {side: ", ".join(sorted(tops[side])) for side in SIDES}
    detail = f"candidate trains {names['candidate']}, reference {names['reference']}"
    return [none_of(name, wrong, 1, detail)]


def _one_class(parts: dict[str, list[Component]], shared_backend: list[str]) -> Check:
    """Both sides train one stock class, as the plan says: shown, with what it cannot tell."""
    name = "independent sides"
    models = {side: {p.class_name for p in parts[side] if p.part == "model"} for side in SIDES}
    own = [
        f"the reference's model is {p.module}.{p.class_name}, which is not published code"
        for p in parts["reference"]
        if p.part == "model" and _OWN in (p.package, p.module.split(".")[0])
    ]
    if shared_backend:
        return none_of(name, shared_backend, 1, "")
    if own:
        # Both sides would train code of ours, and nothing says that it is the published model.
        return undecided(name, own[0])
    shown = ", ".join(sorted(models["reference"]))
    detail = f"both sides train {shown}: a fault inside that class cannot show"
    return reported(name, "one class", detail)


def _parts(runs: list[Run]) -> list[Component]:
    return [part for run in runs for file in run.files for part in file.of(Component)]


def _lacking(file: RecordFile, side: str, stock: str | None) -> list[str]:
    needed = _REFERENCE_PARTS if side == "reference" and stock else _INDEPENDENT_PARTS
    known = {part.part for part in file.of(Component)}
    lacking = [f"whose {part} it trained with" for part in needed if part not in known]
    modules = file.of(Modules)
    if not modules or not all(m.loaded and m.trained_classes for m in modules):
        lacking.append("what it had loaded and trained")
    return lacking


def _loaded(file: RecordFile, packages: set[str]) -> list[str]:
    found = {name.split(".")[0] for modules in file.of(Modules) for name in modules.loaded}
    return [
        f"the candidate had {package}, the reference's package, loaded"
        for package in sorted(packages & found)
    ]


def _trained(file: RecordFile, packages: set[str]) -> list[str]:
    return [
        f"the reference trained {name}, a class of the candidate's package"
        for modules in file.of(Modules)
        for name in modules.trained_classes
        if name.split(".")[0] in packages
    ]


def _shared_backend(runs: dict[str, list[Run]]) -> list[str]:
    used = {side: {f.header.backend for r in runs[side] for f in r.files} for side in SIDES}
    shared = sorted(used["candidate"] & used["reference"])
    return [f"both sides run on the backend {shared[0]}"] if shared else []


def _shared_code(parts: dict[str, list[Component]]) -> list[str]:
    wrong = {
        f"both sides take their {one.part} from {one.module}"
        + ("" if one.module == two.module else f" ({two.module} has the same source)")
        for one in parts["candidate"]
        for two in parts["reference"]
        if one.part == two.part
        and one.part in _INDEPENDENT_PARTS
        and (one.module == two.module or one.source_sha256 == two.source_sha256)
    }
    return sorted(wrong)


def _not_stock(parts: list[Component], package: str | None) -> list[str]:
    """Parts of the reference that are not published code; package: of its backend, if known."""
    wrong = set()
    for part in parts:
        what = f"the reference's {part.part} is {part.module}.{part.class_name} of {part.package}"
        known = {part.package, part.module.split(".")[0]}
        if package is not None and part.part in _REFERENCE_PARTS and known != {package}:
            wrong.add(f"{what}, not of {package}")
        elif part.part == "model" and _OWN in known:
            wrong.add(f"{what}, which is not published code")
    return sorted(wrong)
