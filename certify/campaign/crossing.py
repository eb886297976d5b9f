"""The cross-backend phase: trained weights leave FSDP2, go through Megatron-Core and come back.

    out     FSDP2 loads the candidate's checkpoint and exports a Hugging Face folder
    stay    FSDP2 trains one step from that folder
    over    Megatron-Core, divided over two ranks, trains the same step from it and saves torch_dist
    repack  Megatron-Core on one rank loads that checkpoint and exports a folder
    back    FSDP2 loads the folder

Each leg is a run of its own; every digest that the gate compares is recorded by the side that
holds the tensors.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.campaign import commands, specs
from certify.campaign.reshard import hop_run
from certify.campaign.sequence import sequence_job
from certify.recipes.scale.families import is_moe
from certify.runspec import CheckpointSpec, ParallelSpec, TrainingSpec, write_spec

if TYPE_CHECKING:
    from certify.campaign.processes import Job
    from certify.runspec import RunSpec

MEGATRON_RANKS = 2


@dataclass(frozen=True)
class Leg:
    """name: as above; weights_of, checkpoint_of: the leg whose export or checkpoint it starts
    from (``candidate``: that of the campaign); steps: to train; saves, exports: what it leaves."""

    name: str
    backend: str
    world_size: int
    weights_of: str = ""
    checkpoint_of: str = ""
    steps: int = 0
    saves: bool = False
    exports: bool = False


def legs(world_size: int) -> tuple[Leg, ...]:
    """The legs in order. world_size: the candidate's ranks."""
    return (
        Leg("out", "fsdp2", world_size, checkpoint_of="candidate", exports=True),
        Leg("stay", "fsdp2", world_size, weights_of="out", steps=1),
        Leg("over", "mcore", MEGATRON_RANKS, weights_of="out", steps=1, saves=True),
        Leg("repack", "mcore", 1, checkpoint_of="over", exports=True),
        Leg("back", "fsdp2", world_size, weights_of="repack"),
    )


def _runs(run_id: str, world_size: int) -> dict[str, str]:
    """Leg -> its run."""
    return {leg.name: hop_run(run_id, n) for n, leg in enumerate(legs(world_size), start=1)}


def planned(inputs: specs.Inputs, run_id: str) -> dict[str, Any]:
    """What the plan says of the phase."""
    runs = _runs(run_id, inputs.world_size)
    return {
        "save_step": inputs.scaled.resume["save_step"],
        "legs": [
            {
                "name": leg.name,
                "run": runs[leg.name],
                "backend": leg.backend,
                "world_size": leg.world_size,
            }
            for leg in legs(inputs.world_size)
        ],
    }


def job(inputs: specs.Inputs, run_id: str, candidate: str) -> Job:
    """The launches of all legs, in order. candidate: the run whose checkpoint leaves."""
    runs = _runs(run_id, inputs.world_size)
    jobs = []
    for leg in legs(inputs.world_size):
        spec = leg_spec(inputs, leg, runs, candidate)
        path = inputs.layout.run(spec.run_id) / "spec.json"
        write_spec(spec, path)
        launch = commands.torchrun_job
        jobs.append(launch("cross-backend", inputs.layout, spec.run_id, leg.world_size, path))
    return sequence_job("cross-backend", inputs.layout, run_id, jobs)


def leg_spec(inputs: specs.Inputs, leg: Leg, runs: dict[str, str], candidate: str) -> RunSpec:
    """The run spec of one leg."""
    layout, save_step = inputs.layout, inputs.scaled.resume["save_step"]
    source, first = None, 0
    if leg.checkpoint_of:
        first = save_step if leg.checkpoint_of == "candidate" else 1
        saved_by = candidate if leg.checkpoint_of == "candidate" else runs[leg.checkpoint_of]
        source = str(layout.checkpoint(saved_by, first))
    training = dict(inputs.scaled.training)
    if leg.backend == "mcore":
        # One micro-batch of all samples: Megatron's auxiliary loss then counts the same tokens.
        training["micro_batch"] = training["global_batch"]
    spec = specs.base_spec(
        inputs,
        runs[leg.name],
        role="candidate",
        backend=leg.backend,
        world_size=leg.world_size,
        parallel=_parallel(inputs, leg),
        training=TrainingSpec(**training),
        checkpoint=CheckpointSpec(
            save_steps=(first + leg.steps,) if leg.saves else (),
            resume_from=source,
            export=leg.exports,
        ),
        stop_step=first + leg.steps,
    )
    if not leg.weights_of:
        return spec
    # The digest is what the gate compares: nobody knows it before the run.
    folder = str(layout.run(runs[leg.weights_of]) / "export")
    model = dataclasses.replace(spec.model, weights_dir=folder, weights_digest="")
    return dataclasses.replace(spec, model=model)


def _parallel(inputs: specs.Inputs, leg: Leg) -> ParallelSpec:
    """Megatron divides tensors where it can; experts under tensor parallel it does not run here."""
    if leg.backend == "fsdp2":
        return ParallelSpec(**inputs.scaled.parallel)
    if leg.world_size == 1:
        return ParallelSpec()
    moe = is_moe(inputs.hf_config)
    return ParallelSpec(pp_size=leg.world_size) if moe else ParallelSpec(tp_size=leg.world_size)
