"""What is run for each fault, and the plan that its records are judged by.

All trials of one case and seed share preparation, reference and an unharmed candidate. A fault
adds only the runs in which it shows: its first steps with evidence; or a continuation of the
unharmed checkpoint; or a save and a continuation; or that checkpoint in another layout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from certify.campaign import specs
from certify.campaign.layout import Layout
from certify.campaign.plan import build_plan
from certify.criteria.load import load_criteria
from certify.runspec import CheckpointSpec, CompareSpec, EvidenceSpec, ParallelSpec, RunSpec
from certify.selftest.cases import Case, scaled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from certify.runspec import PrepareSpec

TRAINED = ("candidate", "candidate-again", "reference", "reference-again")


@dataclass(frozen=True)
class Ground:
    """One case with one seed. shared: what all cases share (`cases.read_cases`)."""

    case: Case
    seed: int
    shared: Mapping[str, Any]
    layout: Layout

    @property
    def name(self) -> str:
        """``moe-3``: how its runs are called."""
        return f"{self.case.name}-{self.seed}"


@dataclass(frozen=True)
class Trial:
    """One fault (None: the A/A) on one ground. runs: phase -> run id, over those of the ground;
    hops: run ids of other layouts; specs: what to train, in order; compare: whether evidence is
    compared; gates: those that should see the fault."""

    ground: Ground
    fault: str | None
    side: str
    gates: tuple[str, ...]
    runs: dict[str, str]
    specs: tuple[RunSpec, ...]
    compare: CompareSpec | None
    hops: tuple[dict[str, Any], ...] = ()

    @property
    def last_step(self) -> int | None:
        """Where a run from the start ends before its plan does; None where no run does."""
        return self.ground.shared["fault"]["steps"] if self.is_short else None

    @property
    def is_short(self) -> bool:
        """Whether its own run is one of first steps only."""
        return self.fault is not None and "candidate-again" not in self.runs


def ground(case: Case, seed: int, shared: Mapping[str, Any], root: Path) -> Ground:
    """A ground under a folder."""
    return Ground(case, seed, shared, Layout(root / f"{case.name}-{seed}"))


def prepare_spec(on: Ground, cache: Path) -> PrepareSpec:
    """What the preparation of a ground reads."""
    from certify.runspec import PrepareSpec

    recipe = scaled(on.shared, on.case, on.seed)
    return PrepareSpec(
        out_dir=str(on.layout.prepared),
        hf_config=dict(on.case.model),
        weights_seed=recipe.data["weights_seed"],
        seq_length=recipe.data["seq_length"],
        global_batch=recipe.data["global_batch"],
        steps=recipe.training["steps"],
        shuffle_seed=on.seed,
        samples=recipe.data["samples"],
        probe_positions=recipe.data["probe_positions"],
        cache_dir=str(cache),
    )


def inputs(on: Ground, fault: tuple[str, str] | None = None) -> specs.Inputs:
    """What the specs of a ground share; its preparation must have run."""
    from certify.campaign.files import read_json

    return specs.Inputs(
        layout=on.layout,
        campaign_id=on.name,
        recipe_id="selftest",
        scaled=scaled(on.shared, on.case, on.seed),
        prepared=read_json(on.layout.prepared / "prepared.json", "the preparation"),
        hf_config=read_json(on.layout.prepared / "config.json", "the model configuration"),
        device=on.shared["scale"]["device"],
        world_size=on.case.world_size,
        fault=fault,
    )


def masked(on: Ground, spec: RunSpec) -> RunSpec:
    """The spec over the masked samples, where the case has them."""
    if not on.case.masked:
        return spec
    file = str(on.layout.prepared / "mask.npy")
    return replace(spec, data=replace(spec.data, mask_file=file))


def _compare(on: Ground, run_id: str, candidate: str, reference: str) -> CompareSpec:
    layout, shared = on.layout, inputs(on)
    return CompareSpec(
        run_id=run_id,
        campaign_id=on.name,
        run_dir=str(layout.run(run_id)),
        candidate_dir=str(layout.run(candidate)),
        reference_dir=str(layout.run(reference)),
        weights_dir=str(layout.prepared / "weights"),
        probe_file=str(layout.prepared / "probe.npy"),
        hf_config=dict(shared.hf_config),
    )


def unharmed(on: Ground) -> Trial:
    """The A/A: reference, candidate, both again, resume with its controls."""
    made = inputs(on)
    ids = {phase: f"{on.name}-{phase}" for phase in (*TRAINED, "resume", "compare")}
    runs = (
        specs.reference_spec(made, ids["reference"]),
        specs.reference_spec(made, ids["reference-again"], again=True),
        specs.candidate_spec(made, ids["candidate"]),
        specs.candidate_spec(made, ids["candidate-again"], again=True),
        specs.resume_spec(made, ids["resume"], ids["candidate"]),
    )
    compare = _compare(on, ids["compare"], ids["candidate"], ids["reference"])
    return Trial(on, None, "", (), ids, tuple(masked(on, spec) for spec in runs), compare)


def harmed(on: Ground, name: str, fault: Mapping[str, Any]) -> Trial:
    """One fault. fault: as the runner lists it."""
    side = fault["side"]
    made = inputs(on, (side, name))
    gates = tuple(fault["gates"])
    ids = {phase: f"{on.name}-{phase}" for phase in (*TRAINED, "resume", "compare")}
    own = f"{on.name}-{name}"
    last = on.shared["resume"]["save_step"] + on.shared["fault"]["resumed_steps"]
    parts: list[RunSpec] = []
    compare: CompareSpec | None = None
    hops: tuple[dict[str, Any], ...] = ()
    if fault["acts_on"] == "step":
        ids |= {side: own, "compare": f"{own}-compare"}
        make = specs.candidate_spec if side == "candidate" else specs.reference_spec
        steps = on.shared["fault"]["steps"]
        spec = replace(make(made, own), stop_step=steps, checkpoint=CheckpointSpec())
        if not set(gates) & {"forward-parity"}:
            # Twenty thousand positions are most of the time of so short a run.
            spec = replace(spec, evidence=replace(spec.evidence, probe_file=None))
        parts.append(spec)
        compare = _compare(on, ids["compare"], ids["candidate"], ids["reference"])
        # What was not run again is left out: half a comparison is none.
        ids = {p: i for p, i in ids.items() if p in ("candidate", "reference", "compare")}
    elif "resume" in gates:
        saver = ids["candidate"]
        if fault["acts_on"] == "save":
            saver = f"{own}-save"
            save_step = on.shared["resume"]["save_step"]
            spec = specs.candidate_spec(made, saver)
            parts.append(replace(spec, evidence=EvidenceSpec(), stop_step=save_step))
        spec = specs.resume_spec(made, own, saver)
        parts.append(replace(spec, evidence=EvidenceSpec(), stop_step=last))
        ids["resume"] = own
    else:
        hops = _hops(on, own)
        spec = specs.reshard_spec(made, own, ids["candidate"], on.case.world_size, hops[0]["sizes"])
        parts.append(spec)
    return Trial(
        on, name, side, gates, ids, tuple(masked(on, spec) for spec in parts), compare, hops
    )


def _hops(on: Ground, run: str) -> tuple[dict[str, Any], ...]:
    """Replicated in place of sharded; experts stay divided."""
    own = ParallelSpec(**on.case.parallel)
    sizes = {
        "fsdp_size": 1,
        "replicate_size": on.case.world_size,
        "ep_size": own.ep_size,
        "ep_fsdp_size": own.ep_fsdp_size,
    }
    return ({"run": run, "world_size": on.case.world_size, "sizes": sizes},)


def plan_of(trial: Trial) -> dict[str, Any]:
    """The plan that a trial is judged by."""
    criteria = load_criteria()
    fault = None if trial.fault is None else (trial.side, trial.fault)
    added: dict[str, Any] = {}
    if trial.hops:
        save_step = trial.ground.shared["resume"]["save_step"]
        added = {
            "requested": ["reshard"],
            "reshard": {"save_step": save_step, "hops": list(trial.hops)},
        }
    plan = build_plan(
        inputs(trial.ground, fault),
        scale="tiny",
        stage="pretrain",
        criteria={"version": criteria.version, "sha256": criteria.sha256},
        runs=trial.runs,
        requested=added,
    )
    if trial.last_step is not None:
        plan["expected"]["steps"] = plan["expected"]["steps"][: trial.last_step]
    return plan
