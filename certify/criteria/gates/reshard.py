"""reshard: a checkpoint is the same state in every layout, and in the first one again.

Each hop loads what the one before it committed. The canonical digests of weights and optimizer
state do not depend on the layout: they must be equal bit for bit at every save and load of the
chain. The step after the save, on the same global batch, may differ by rounding only. Layouts are
those of the live process groups; where two that follow each other are the same, nothing was shown.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from certify.criteria.case import Case, absent, relative_difference
from certify.criteria.gates.conditions import end_check, same_stack_check
from certify.criteria.outcome import (
    OK,
    UNDECIDED,
    Check,
    Finding,
    at_most,
    none_of,
    reported,
    undecided,
)
from certify.records import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.criteria.evidence import Run
    from certify.criteria.plan import PlannedHop

    Layout = Mapping[int, tuple[int, Mapping[str, list[int]]]]

_BATCH = ("tokens_sha256", "mask_sha256", "batch")


def judge(case: Case) -> Finding:
    """Decide the gate for the planned chain of layouts."""
    plan = case.plan.reshard
    if plan is None or not plan.hops:
        return Finding((undecided("plan", "the plan has no reshard"),), "plan", "")
    checks = absent(case, "candidate")
    hops = [
        (f"hop {n}", hop, case.evidence.hops.get(hop.run)) for n, hop in enumerate(plan.hops, 1)
    ]
    checks += [
        undecided(f"records of {name}", f"the run {hop.run} left no records")
        for name, hop, run in hops
        if run is None
    ]
    if checks:
        return Finding(tuple(checks), checks[0].name, "")
    candidate = case.evidence.run("candidate")
    assert candidate is not None
    chain = [("candidate", candidate), *((name, run) for name, _, run in hops if run is not None)]
    checks = [
        same_stack_check("same stack", chain),
        *(end_check(name, run) for name, run in chain[1:]),
        *_identity_checks(case, [(name, hop, run) for name, hop, run in hops if run is not None]),
        *_layout_checks(case, chain),
        *_state_checks(case, chain, plan.save_step),
        *_next_step_checks(case, chain, plan.save_step + 1),
    ]
    worlds = ", ".join(str(run.world_size) for _, run in chain)
    return Finding(
        tuple(checks),
        "states",
        f"weights and optimizer state are the same bits in every layout (ranks {worlds})",
    )


def _identity_checks(case: Case, hops: list[tuple[str, PlannedHop, Run]]) -> list[Check]:
    """Every hop is the run and the layout that the plan names, on every rank."""
    wrong = []
    for name, hop, run in hops:
        for file in run.files:
            header = file.header
            found = (header.run_id, header.role, header.world_size)
            wanted = (run.run_id, "candidate", hop.world_size)
            if found != wanted:
                wrong.append(f"{name}: the records are of {found}, planned {wanted}")
        wrong += [f"{name}: rank {rank} left no records" for rank in run.missing_ranks[:1]]
        for rank, (_, groups) in sorted(_layout(run).items()):
            sizes = {f"{group}_size": len(ranks) for group, ranks in groups.items()}
            wrong += [
                f"{name} rank {rank}: {key} is {sizes.get(key, 1)}, planned {size}"
                for key, size in sorted(hop.sizes.items())
                if sizes.get(key, 1) != size and not (key == "ep_fsdp_size" and "ep" not in groups)
            ]
    return [none_of("planned layouts", wrong, len(hops), "every hop has the layout of the plan")]


def _layout(run: Run) -> Layout:
    """rank -> (world size, groups), as the last process of each rank recorded it."""
    return {
        file.header.rank: (found[-1].world_size, found[-1].groups)
        for file in run.files
        if (found := file.of(Topology))
    }


def _layout_checks(case: Case, chain: list[tuple[str, Run]]) -> list[Check]:
    layouts = [(name, _layout(run)) for name, run in chain]
    if unknown := [name for name, layout in layouts if not layout]:
        return [undecided("layouts", f"the topology of {unknown[0]} was not recorded")]
    checks = []
    for (name, one), (next_name, other) in pairwise(layouts):
        if one == other:
            text = f"{name} and {next_name} ran in the same topology: nothing was resharded"
            checks.append(undecided(f"layouts of {name} and {next_name}", text))
    first, last = layouts[0][1], layouts[-1][1]
    if first != last:
        text = f"the chain ends in another topology than it began in ({layouts[-1][0]})"
        checks.append(undecided("way back", text))
    row = case.limits.find("world-sizes")
    worlds = {run.world_size for _, run in chain}
    if row is not None:
        text = f"{len(worlds)} different numbers of ranks"
        outcome = OK if len(worlds) >= row.value else UNDECIDED
        checks.append(Check("world sizes", outcome, len(worlds), row.value, text, row.unit))
    return checks


def _state_checks(case: Case, chain: list[tuple[str, Run]], step: int) -> list[Check]:
    """Every part at every load and save of the chain against the candidate's save."""
    saved = _parts(chain[0][1].digests("save", step))
    parts = case.limits.names("state-parts")
    missing = [part for part in parts if part not in saved]
    if not saved or missing:
        what = missing[0] if saved and missing else "state"
        return [undecided("states", f"no {what} was recorded at the save of step {step}")]
    wrong: list[str] = []
    absent_parts: list[str] = []
    for name, run in chain[1:]:
        for at in ("load", "save"):
            found = _parts(run.digests(at, step))
            absent_parts += [f"{name}: {p} at the {at}" for p in sorted(set(saved) - set(found))]
            wrong += [
                f"{name}: {part} at the {at} is not what the candidate saved"
                for part, digest in sorted(found.items())
                if saved.get(part) != digest
            ]
    if absent_parts and not wrong:
        return [undecided("states", f"not recorded: {absent_parts[0]}")]
    n = 2 * len(saved) * (len(chain) - 1)
    return [none_of("states", wrong, n, f"{n} digests equal those of the save")]


def _parts(digests: Mapping[str, str]) -> dict[str, str]:
    """What every layout must hold; random states belong to ranks, and other layouts have others."""
    return {part: value for part, value in digests.items() if not part.startswith("rng.")}


def _next_step_checks(case: Case, chain: list[tuple[str, Run]], step: int) -> list[Check]:
    row, base = case.limits["next-step"], chain[0][1].steps.get(step)
    if base is None:
        return [undecided("next step", f"the candidate did not record step {step}")]
    checks = []
    for name, run in chain[1:]:
        found = run.steps.get(step)
        if found is None:
            checks.append(undecided(f"{name}: next step", f"{name} did not record step {step}"))
            continue
        wrong = [
            f"{name}: {key} of step {step} is not the candidate's"
            for key in _BATCH
            if getattr(found, key) != getattr(base, key)
        ]
        checks.append(none_of(f"{name}: next batch", wrong, len(_BATCH), "the same global batch"))
        checks.append(
            at_most(f"{name}: next loss", relative_difference(found.loss, base.loss), row)
        )
        norm = relative_difference(found.grad_norm, base.grad_norm)
        checks.append(reported(f"{name}: next gradient norm", norm, unit="relative"))
    return checks
