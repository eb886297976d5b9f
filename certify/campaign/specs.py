"""The run specs of a campaign: one function a phase, all from the same resolved request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from certify.campaign.reference_side import reference_backend
from certify.recipes.scale.families import is_moe
from certify.runspec import (
    CheckpointSpec,
    DataSpec,
    EvidenceSpec,
    ModelSpec,
    ParallelSpec,
    RecoverySpec,
    RunSpec,
    TrainingSpec,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.campaign.layout import Layout
    from certify.recipes.scale import ScaledRecipe

# Who starts lost ranks again: torchrun's elastic agent; and a lost agent, the supervisor.
RECOVERY_AGENT = "torchrun c10d"


@dataclass(frozen=True)
class Inputs:
    """What every run of a campaign shares. prepared: the document ``prepared/prepared.json``;
    hf_config: ``prepared/config.json``; backend: the candidate's; fault: (side, name) or None."""

    layout: Layout
    campaign_id: str
    recipe_id: str
    scaled: ScaledRecipe
    prepared: Mapping[str, Any]
    hf_config: Mapping[str, Any]
    device: str
    world_size: int
    backend: str = "fsdp2"
    fault: tuple[str, str] | None = None

    @property
    def reference(self) -> str:
        """The backend of the reference."""
        return reference_backend(
            self.hf_config, self.backend, self.scaled.training["aux_loss_formula"]
        )

    def training(self) -> TrainingSpec:
        """The optimizer and schedule of both sides."""
        return TrainingSpec(**self.scaled.training)


def _fault(inputs: Inputs, side: str) -> str | None:
    return inputs.fault[1] if inputs.fault and inputs.fault[0] == side else None


def base_spec(inputs: Inputs, run_id: str, **fields: Any) -> RunSpec:
    """A run of the campaign on the prepared weights and data. fields: of `RunSpec`."""
    prepared, data = inputs.layout.prepared, inputs.scaled.data
    return RunSpec(
        run_id=run_id,
        campaign_id=inputs.campaign_id,
        recipe_id=inputs.recipe_id,
        run_dir=str(inputs.layout.run(run_id)),
        model=ModelSpec(
            hf_config=dict(inputs.hf_config),
            weights_dir=str(prepared / "weights"),
            weights_digest=inputs.prepared["weights_digest"],
        ),
        data=DataSpec(
            samples_file=str(prepared / "samples.npy"),
            n_samples=inputs.prepared["n_samples"],
            seq_length=data["seq_length"],
            vocab_size=inputs.prepared["vocab_size"],
            shuffle_seed=inputs.scaled.training["seed"],
        ),
        device=inputs.device,
        **fields,
    )


def _evidence(inputs: Inputs, **fields: Any) -> EvidenceSpec:
    return EvidenceSpec(
        probe_file=str(inputs.layout.prepared / "probe.npy"),
        probe_rows=inputs.scaled.data["probe_rows"],
        gradients=True,
        first_update=True,
        routing=is_moe(inputs.hf_config),
        **fields,
    )


def reference_spec(inputs: Inputs, run_id: str, *, again: bool = False) -> RunSpec:
    """The reference on one rank. Of fsdp2: the global batch as one micro-batch; of mcore: the
    candidate's micro-batches, over which Megatron's auxiliary loss counts. again: the A/A run,
    which repeats the trajectory and needs no evidence files of its own."""
    training = dict(inputs.scaled.training)
    if inputs.backend == "fsdp2":
        training["micro_batch"] = training["global_batch"]
    return base_spec(
        inputs,
        run_id,
        role="reference",
        backend=inputs.reference,
        world_size=1,
        parallel=ParallelSpec(),
        training=TrainingSpec(**training),
        evidence=EvidenceSpec() if again else _evidence(inputs),
        fault=_fault(inputs, "reference"),
    )


def candidate_spec(inputs: Inputs, run_id: str, *, again: bool = False) -> RunSpec:
    """The candidate, uninterrupted; the first of the pair writes evidence and the checkpoint."""
    return base_spec(
        inputs,
        run_id,
        role="candidate",
        backend=inputs.backend,
        world_size=inputs.world_size,
        parallel=ParallelSpec(**inputs.scaled.parallel),
        training=inputs.training(),
        checkpoint=CheckpointSpec(save_steps=() if again else (inputs.scaled.resume["save_step"],)),
        evidence=EvidenceSpec() if again else _evidence(inputs),
        fault=_fault(inputs, "candidate"),
    )


def resume_spec(inputs: Inputs, run_id: str, candidate_run: str) -> RunSpec:
    """The candidate continued from its checkpoint in fresh processes, then the controls."""
    resume = inputs.scaled.resume
    checkpoint = inputs.layout.checkpoint(candidate_run, resume["save_step"])
    return base_spec(
        inputs,
        run_id,
        role="candidate",
        backend=inputs.backend,
        world_size=inputs.world_size,
        parallel=ParallelSpec(**inputs.scaled.parallel),
        training=inputs.training(),
        checkpoint=CheckpointSpec(resume_from=str(checkpoint)),
        evidence=EvidenceSpec(
            controls=tuple(resume["controls"]), control_steps=resume["control_steps"]
        ),
        stop_step=resume["save_step"] + resume["steps"],
        fault=_fault(inputs, "candidate"),
    )


def reshard_spec(
    inputs: Inputs, run_id: str, source: str, world_size: int, sizes: Mapping[str, int]
) -> RunSpec:
    """One hop of the reshard phase: load, commit in this layout, train one step. source: the run
    whose checkpoint is loaded; sizes: of the parallel dimensions."""
    save_step = inputs.scaled.resume["save_step"]
    training = inputs.scaled.training
    share = training["global_batch"] // world_size
    micro_batch = min(training["micro_batch"], share)
    return base_spec(
        inputs,
        run_id,
        role="candidate",
        backend="fsdp2",
        world_size=world_size,
        parallel=ParallelSpec(**{**inputs.scaled.parallel, **sizes}),
        training=TrainingSpec(**{**training, "micro_batch": micro_batch}),
        checkpoint=CheckpointSpec(
            resume_from=str(inputs.layout.checkpoint(source, save_step)), resave=True
        ),
        stop_step=save_step + 1,
        fault=_fault(inputs, "candidate"),
    )


def worker_loss_spec(inputs: Inputs, run_id: str, save_every: int, last_step: int) -> RunSpec:
    """The candidate with a checkpoint every few steps, started again by an agent when a rank is
    lost. last_step: where it ends."""
    spec = candidate_spec(inputs, run_id, again=True)
    return replace(
        spec,
        checkpoint=CheckpointSpec(save_steps=tuple(range(save_every, last_step + 1, save_every))),
        stop_step=last_step,
        recovery=RecoverySpec(agent=RECOVERY_AGENT),
    )
