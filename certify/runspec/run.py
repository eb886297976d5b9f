"""One training run, resolved: what ``python -m runner SPEC.json`` reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from certify.runspec.form import read_form, write_form
from certify.runspec.speed import SpeedSpec

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.runspec/1"


@dataclass(frozen=True)
class ModelSpec:
    """hf_config: the complete transformers configuration (flat JSON, with ``model_type``).

    weights_dir: a Hugging Face checkpoint folder (safetensors under the published, per-expert
    names) holding the initial weights; weights_digest: `records.root_digest` over its tensors,
    empty where only the run will say.
    """

    hf_config: dict[str, Any]
    weights_dir: str
    weights_digest: str
    dtype: str = "float32"  # float32 | bfloat16
    attention: str = "sdpa"  # transformers' attn_implementation


@dataclass(frozen=True)
class DataSpec:
    """samples_file: .npy, int32, shape (n_samples, seq_length + 1): inputs are [:, :-1], labels
    [:, 1:]. mask_file: .npy, uint8, shape (n_samples, seq_length), 1 where the label is in the
    loss, or None when all are. Global batch k (from 0) holds the samples at positions
    [k*B, (k+1)*B) of the shuffled order of `runner.data.sampler`, on every topology."""

    samples_file: str
    n_samples: int
    seq_length: int
    vocab_size: int
    shuffle_seed: int
    mask_file: str | None = None


@dataclass(frozen=True)
class ParallelSpec:
    """Sizes of the parallel dimensions and the module patterns they apply to.

    Patterns are those of MindSpeed-LLM's FSDP2 backend (``model.layers.{*}``). The fields from
    vpp_size on are the mcore backend's: vpp_size: chunks of the model on each pipeline rank
    (interleaved schedule above 1); moe_dispatcher: allgather | alltoall; distributed_optimizer:
    optimizer state divided over data-parallel ranks; recompute: none | full, every layer again
    in the backward pass; sequence_parallel: activations divided over tensor-parallel ranks.
    """

    fsdp_size: int = 1
    replicate_size: int = 1
    ep_size: int = 1
    ep_fsdp_size: int = 1
    cp_size: int = 1
    tp_size: int = 1
    pp_size: int = 1
    fsdp_modules: tuple[str, ...] = ("model.layers.{*}", "model.embed_tokens", "lm_head")
    ignored_modules: tuple[str, ...] = ()
    ep_modules: tuple[str, ...] = ("model.layers.{*}.mlp.experts",)
    ep_fsdp_modules: tuple[str, ...] = ("model.layers.{*}.mlp.experts",)
    reshard_after_forward: bool = True
    recompute_modules: tuple[str, ...] = ()
    param_dtype: str = "float32"
    reduce_dtype: str = "float32"
    vpp_size: int = 1
    moe_dispatcher: str = "allgather"
    distributed_optimizer: bool = False
    recompute: str = "none"
    sequence_parallel: bool = False


@dataclass(frozen=True)
class TrainingSpec:
    """Optimizer and schedule. Step n (from 1) uses the rate of `certify.recipes.schedule` at n-1.

    warmup_init_lr: rate of the first step; aux_loss_coef: coefficient of the router's auxiliary
    loss, 0 for dense models; aux_loss_formula: ``megatron`` (per layer, summed over layers,
    E / (k T^2) * sum_e n_e P_e over the T tokens of the global batch), ``megatron-micro-batch``
    (the same over the T tokens of each micro-batch of a rank, averaged over all of them, as
    Megatron-Core computes it) or ``pooled`` (transformers: layers pooled first); weight_decay
    applies to parameters of two or more dimensions only; router_bias_update_rate: how far the
    bias of a router's choice moves after each step (`runner.balance`), 0 where nothing moves it;
    wsd_decay_steps: length of the linear decay that ends at decay_steps, for the schedule wsd
    only (before it the rate stays at lr).
    """

    steps: int
    global_batch: int
    micro_batch: int
    lr: float
    min_lr: float
    warmup_init_lr: float
    warmup_steps: int
    decay_steps: int
    schedule: str  # cosine | linear | constant | wsd
    weight_decay: float
    beta1: float
    beta2: float
    eps: float
    clip_grad: float
    seed: int
    optimizer: str = "adamw"
    aux_loss_coef: float = 0.0
    aux_loss_formula: str = "megatron"
    router_bias_update_rate: float = 0.0
    wsd_decay_steps: int = 0


@dataclass(frozen=True)
class CheckpointSpec:
    """save_steps: steps after which a checkpoint is committed to ``checkpoints/step-000100``;
    resume_from: a committed checkpoint folder to continue from, or None; resave: commit what was
    loaded again, in this run's own layout, before the first step; export: write the trained
    weights as a Hugging Face folder ``export`` in the run folder at the end."""

    save_steps: tuple[int, ...] = ()
    resume_from: str | None = None
    keep: int = 2
    export: bool = False
    resave: bool = False


@dataclass(frozen=True)
class RecoverySpec:
    """agent: who starts lost ranks again (``torchrun c10d``), empty when nobody does. With an agent
    a process continues from the newest whole checkpoint of its own run folder, and stamps its
    progress (`certify.records.stamps`)."""

    agent: str = ""


@dataclass(frozen=True)
class EvidenceSpec:
    """What a run writes beside its records, under ``evidence/`` (see `runner.evidence`).

    probe_file: .npy int32 (positions_samples, seq_length + 1) for forward parity, or None;
    probe_rows: how many full rows of logits to keep; gradients: write the full gradients of
    step 1; first_update: write the parameters after step 1; routing: write the top-k sets of
    every step; controls: negative controls to run after a resume.
    """

    probe_file: str | None = None
    probe_rows: int = 4096
    gradients: bool = False
    first_update: bool = False
    routing: bool = False
    controls: tuple[str, ...] = ()
    control_steps: int = 5


@dataclass(frozen=True)
class RunSpec:
    """One run. role: candidate | reference; backend: fsdp2 | mcore; stop_step: last step to
    train (at most training.steps); fault: name of an injected fault (`runner.faults`) or None."""

    run_id: str
    campaign_id: str
    recipe_id: str
    role: str
    backend: str
    run_dir: str
    world_size: int
    model: ModelSpec
    data: DataSpec
    parallel: ParallelSpec
    training: TrainingSpec
    checkpoint: CheckpointSpec = field(default_factory=CheckpointSpec)
    evidence: EvidenceSpec = field(default_factory=EvidenceSpec)
    speed: SpeedSpec = field(default_factory=SpeedSpec)
    recovery: RecoverySpec = field(default_factory=RecoverySpec)
    device: str = "cpu"  # cpu | cuda | npu
    deterministic: bool = True
    threads: int = 1
    stop_step: int | None = None
    fault: str | None = None
    schema: str = SCHEMA

    @property
    def last_step(self) -> int:
        """The step after which this run ends."""
        return self.stop_step if self.stop_step is not None else self.training.steps


def write_spec(spec: RunSpec, path: Path) -> None:
    """Write ``spec.json``."""
    write_form(spec, path)


def read_spec(path: Path) -> RunSpec:
    """Read ``spec.json``. Raises UsageError naming the key at fault."""
    return read_form(RunSpec, path, SCHEMA)
