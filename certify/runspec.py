"""What the runner reads: one resolved run, written by ``certify`` as ``spec.json``.

Frozen dataclasses with a strict JSON form: an unknown key, a missing key or a value of another
type is an error naming the key. Standard library only, as `certify.records`.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from certify.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.runspec/1"
T = TypeVar("T")


@dataclass(frozen=True)
class ModelSpec:
    """hf_config: the complete transformers configuration (flat JSON, with ``model_type``).

    weights_dir: a Hugging Face checkpoint folder (safetensors under the published, per-expert
    names) holding the initial weights; weights_digest: `records.root_digest` over its tensors.
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

    Patterns are those of MindSpeed-LLM's FSDP2 backend (``model.layers.{*}``).
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


@dataclass(frozen=True)
class TrainingSpec:
    """Optimizer and schedule. Step n (from 1) uses the rate of `certify.recipes.schedule` at n-1.

    warmup_init_lr: rate of the first step; aux_loss_coef: coefficient of the router's auxiliary
    loss, 0 for dense models; aux_loss_formula: ``megatron`` (per layer, summed over layers,
    E / (k T^2) * sum_e n_e P_e over the T tokens of the global batch) or ``pooled``
    (transformers: layers pooled first); weight_decay applies to parameters of two or more
    dimensions only.
    """

    steps: int
    global_batch: int
    micro_batch: int
    lr: float
    min_lr: float
    warmup_init_lr: float
    warmup_steps: int
    decay_steps: int
    schedule: str  # cosine | linear | constant
    weight_decay: float
    beta1: float
    beta2: float
    eps: float
    clip_grad: float
    seed: int
    optimizer: str = "adamw"
    aux_loss_coef: float = 0.0
    aux_loss_formula: str = "megatron"


@dataclass(frozen=True)
class CheckpointSpec:
    """save_steps: steps after which a checkpoint is committed to ``checkpoints/step-000100``;
    resume_from: a committed checkpoint folder to continue from, or None."""

    save_steps: tuple[int, ...] = ()
    resume_from: str | None = None
    keep: int = 2


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


def to_json(value: Any) -> str:
    """The JSON text of a spec (any of the dataclasses here), stable for equal values."""
    return json.dumps(dataclasses.asdict(value), indent=1, sort_keys=True, ensure_ascii=False)


def write_spec(spec: RunSpec, path: Path) -> None:
    """Write ``spec.json``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(spec) + "\n", encoding="utf-8")


def read_spec(path: Path) -> RunSpec:
    """Read ``spec.json``. Raises UsageError naming the key at fault."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the run spec: {error.strerror}", where=str(path)) from None
    except ValueError as error:
        raise UsageError(f"the run spec is not JSON: {error}", where=str(path)) from None
    spec = from_json(RunSpec, body, str(path))
    if spec.schema != SCHEMA:
        raise UsageError(
            f"run spec of schema {spec.schema!r}", where=str(path), expected=repr(SCHEMA)
        )
    return spec


def from_json(cls: type[T], body: Any, where: str) -> T:
    """Build a dataclass from parsed JSON, strictly. where: prefix of the key in messages."""
    if not isinstance(body, dict):
        raise UsageError(f"found {type(body).__name__}", where=where, expected="a JSON object")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(body) - set(fields)):
        raise UsageError(
            f"unknown key {unknown[0]!r}", where=where, expected=_near(unknown[0], fields)
        )
    values: dict[str, Any] = {}
    for name, f in fields.items():
        if name in body:
            values[name] = _convert(hints[name], body[name], f"{where}: {name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise UsageError(f"missing key {name!r}", where=where)
    return cls(**values)


def _near(name: str, known: typing.Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f"{near[0]!r}?" if near else f"one of {', '.join(sorted(known))}"


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        arms = typing.get_args(hint)
        if value is None and type(None) in arms:
            return None
        return _convert(next(a for a in arms if a is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list):
            raise UsageError(f"found {value!r}", where=where, expected="a list")
        item = typing.get_args(hint)[0]
        return tuple(_convert(item, v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise UsageError(f"found {value!r}", where=where, expected="an object")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(value, hint) and not (hint is int and isinstance(value, bool))):
        return value
    raise UsageError(f"found {value!r}", where=where, expected=getattr(hint, "__name__", str(hint)))
