"""cross-backend: weights that go from one backend to the other and back are the same bits.

The candidate's checkpoint is exported as Hugging Face safetensors, read by Megatron-Core, saved by
it as torch_dist, read in another layout, exported, and read by FSDP2 again. Each reader records
the digest of what it holds. One step from the same weights on the same batch shows that both sides
mean the same by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.case import Case, absent, relative_difference
from certify.criteria.gates.conditions import end_check
from certify.criteria.outcome import Check, Finding, at_most, none_of, reported, undecided

if TYPE_CHECKING:
    from certify.criteria.evidence import Run
    from certify.criteria.plan import PlannedCrossing

_BATCH = ("tokens_sha256", "mask_sha256", "batch", "supervised_tokens")
_PARAMS = ("params",)
# Of Megatron's optimizer, through its own checkpoint.
_STATE = ("params", "exp_avg", "exp_avg_sq", "optimizer_step")
# (writer, at, reader, at, parts): the reader holds what the writer held.
_HANDED = (
    ("out", "load", "out", "end", _PARAMS),
    ("out", "end", "stay", "init", _PARAMS),
    ("out", "end", "over", "init", _PARAMS),
    ("over", "save", "repack", "load", _STATE),
    ("repack", "load", "repack", "end", _PARAMS),
    ("repack", "end", "back", "init", _PARAMS),
)
_WHOSE = {"fsdp2": "transformers", "mcore": "megatron"}


def judge(case: Case) -> Finding:
    """Decide the gate for the planned crossing."""
    plan = case.plan.crossing
    if plan is None or not plan.legs:
        return Finding((undecided("plan", "the plan has no crossing"),), "plan", "")
    found = {leg.name: case.evidence.hops.get(leg.run) for leg in plan.legs}
    names = {name for row in _HANDED for name in (row[0], row[2])}
    checks = absent(case, "candidate")
    checks += [
        undecided(f"leg {n}", f"the plan has no leg {n}") for n in sorted(names - set(found))
    ]
    checks += [
        undecided(f"records of {name}", f"the leg {name} left no records")
        for name, run in found.items()
        if run is None
    ]
    if checks:
        return Finding(tuple(checks), checks[0].name, "")
    legs = {name: run for name, run in found.items() if run is not None}
    candidate = case.evidence.run("candidate")
    assert candidate is not None
    checks = [
        *(end_check(name, run) for name, run in legs.items()),
        _identity_check(plan, legs),
        _from_candidate(candidate, legs["out"], plan.save_step),
        *(_handed(legs, *row) for row in _HANDED),
        _moved_check(legs["over"]),
        *_step_checks(case, legs["stay"], legs["over"]),
    ]
    return Finding(
        tuple(checks),
        "repack end -> back init",
        "FSDP2 to safetensors to Megatron torch_dist and back is the same bits, without a cast",
    )


def _identity_check(plan: PlannedCrossing, legs: dict[str, Run]) -> Check:
    """Every leg is the run, backend and size that the plan names, with that backend's model."""
    wrong = []
    for leg in plan.legs:
        run = legs[leg.name]
        for file in run.files:
            header = file.header
            is_ = (header.run_id, header.backend, header.world_size)
            planned = (run.run_id, leg.backend, leg.world_size)
            if is_ != planned:
                wrong.append(f"{leg.name}: the records are of {is_}, planned {planned}")
        wrong += [f"{leg.name}: rank {rank} left no records" for rank in run.missing_ranks[:1]]
        model = run.component("model")
        whose = "unknown code" if model is None else model.package
        if whose != _WHOSE.get(leg.backend, whose):
            wrong.append(f"{leg.name}: its model is of {whose}, the backend is {leg.backend}")
    sizes = {legs["over"].world_size, legs["repack"].world_size}
    if len(sizes) < 2:
        wrong.append("over and repack ran on the same number of ranks: nothing was divided anew")
    return none_of("planned legs", wrong, len(legs), "every leg is the run that the plan names")


def _from_candidate(candidate: Run, out: Run, step: int) -> Check:
    saved, loaded = candidate.digests("save", step), out.digests("load", step)
    return _same("candidate save -> out load", saved, loaded, _STATE)


def _handed(
    legs: dict[str, Run], writer: str, at: str, reader: str, then: str, parts: tuple[str, ...]
) -> Check:
    name = f"{writer} {at} -> {reader} {then}"
    return _same(name, legs[writer].digests(at), legs[reader].digests(then), parts)


def _same(
    name: str, written: dict[str, str], read: dict[str, str], parts: tuple[str, ...]
) -> Check:
    lacking = [part for part in parts if part not in written or part not in read]
    if lacking:
        return undecided(name, f"{name}: no digest of {lacking[0]} was recorded")
    wrong = [
        f"{name}: {part} is not what was written" for part in parts if written[part] != read[part]
    ]
    wrong += [
        f"{name}: {key} differs from another rank's"
        for key in (*written, *read)
        if " (rank " in key and key.partition(" (rank ")[0] in parts
    ]
    return none_of(name, wrong, len(parts), "the same bits")


def _moved_check(over: Run) -> Check:
    """Weights that Megatron did not change would also come back from a copy of the first folder."""
    before, after = over.digests("init").get("params"), over.digests("save").get("params")
    if before is None or after is None:
        return undecided("trained between", "over did not record its weights before and after")
    wrong = ["over saved the weights that it had read: nothing was trained"] * (before == after)
    return none_of("trained between", wrong, 1, "the weights that came back were trained there")


def _step_checks(case: Case, stay: Run, over: Run) -> list[Check]:
    """The first step of both sides, from the same weights on the same global batch."""
    ours, theirs = stay.steps.get(1), over.steps.get(1)
    if ours is None or theirs is None:
        return [undecided("next step", "stay and over did not both record a step")]
    wrong = [
        f"{key} of the step differs" for key in _BATCH if getattr(ours, key) != getattr(theirs, key)
    ]
    norm = relative_difference(theirs.grad_norm, ours.grad_norm)
    return [
        none_of("next batch", wrong, len(_BATCH), "the same global batch"),
        at_most("next loss", relative_difference(theirs.loss, ours.loss), case.limits["next-step"]),
        reported("next gradient norm", norm, unit="relative"),
    ]
