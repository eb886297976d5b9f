"""One family from random weights to a reloaded export, through the FSDP2 backend itself.

Stages, in order: build the stock class, draw weights, train (forward, backward, optimizer, save
half-way, export at the end), resume from the checkpoint and arrive at the same bits, reload the
export with the stock class and get the same logits as the backend from the same export.
"""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from certify.errors import CertifyError
from certify.records import State, read_run
from certify.runspec import (
    CheckpointSpec,
    DataSpec,
    EvidenceSpec,
    ModelSpec,
    ParallelSpec,
    RunSpec,
    TrainingSpec,
)
from runner import initial_weights, models
from runner.backends import fsdp2
from runner.compat import model_class, stock_model
from runner.evidence import read_probe
from runner.modules import patterns

if TYPE_CHECKING:
    from collections.abc import Callable

    from certify.records import RecordFile

GLOBAL_BATCH = 8
SAMPLES = 44  # no multiple of the batch: an epoch ends inside one
PROBE_SAMPLES = 4
SEED = 7
STAGES = ("build", "weights", "train", "resume", "export")


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a trial is made of. ranks: processes that take part."""

    config: dict[str, Any]
    folder: Path
    dtype: str
    steps: int
    seq_length: int
    ranks: int

    @property
    def half(self) -> int:
        """The step after which a checkpoint is written."""
        return self.steps // 2


def check(trial: Trial) -> dict[str, Any]:
    """The result of one family in one precision (collective).

    ok; model_class, attention, experts and ep_size as they really were; losses of the first and
    the last step; or the stage that failed with the reason. Never raises for a family's own
    failure.
    """
    began = time.perf_counter()
    stage, found = "build", {"model_type": trial.config.get("model_type")}
    try:
        layout, model = _layout(trial)
        found = {
            "model_class": model_class(model).__name__,
            "attention": getattr(model.config, "_attn_implementation", None),
            "experts": getattr(model.config, "_experts_implementation", None),
            "ep_size": layout.ep_size,
        }
        stage = "weights"
        _on_rank_0(trial, lambda: _draw(trial))
        stage = "train"
        trained = _run(trial, layout, "train", steps=trial.steps)
        found |= _on_rank_0(trial, lambda: _losses(trial, trained))
        stage = "resume"
        saved = Path(trained.run_dir) / "checkpoints" / f"step-{trial.half:06d}"
        again = CheckpointSpec(resume_from=str(saved))
        resumed = _run(trial, layout, "resume", steps=trial.steps, checkpoint=again)
        _on_rank_0(trial, lambda: _resumed(trial, trained, resumed))
        stage = "export"
        reloaded = _reload(trial, layout, trained)
        _on_rank_0(trial, lambda: _reloaded(trial, trained, reloaded))
    except Exception as error:
        # Whatever a stock class raises is the answer to the question that was asked.
        text = error.what if isinstance(error, CertifyError) else f"{type(error).__name__}: {error}"
        return {**found, "ok": False, "stage": stage, "reason": _one_line(text)}
    finally:
        if trial.ranks == 1 and dist.is_initialized():
            # A run that failed has left its own behind.
            dist.destroy_process_group()
    return {**found, "ok": True, "wall_s": round(time.perf_counter() - began, 1)}


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _layout(trial: Trial) -> tuple[ParallelSpec, Any]:
    model: Any = models.build(ModelSpec(trial.config, "", ""), trial.config)
    found = patterns(model)
    ep_size = trial.ranks if found.experts and found.n_experts % trial.ranks == 0 else 1
    layout = ParallelSpec(
        fsdp_size=trial.ranks,
        ep_size=ep_size,
        ep_fsdp_size=trial.ranks // ep_size,
        fsdp_modules=found.fsdp,
        ep_modules=found.experts,
        ep_fsdp_modules=found.experts,
        param_dtype=trial.dtype,
    )
    return layout, model


def _draw(trial: Trial) -> None:
    """Weights, samples and probe."""
    trial.folder.mkdir(parents=True, exist_ok=True)
    initial_weights.draw(trial.config, SEED, trial.folder / "weights")
    generator = np.random.default_rng(SEED)
    vocabulary, length = trial.config["vocab_size"], trial.seq_length

    def samples(count: int) -> Any:
        return generator.integers(0, vocabulary, (count, length + 1)).astype(np.int32)

    np.save(trial.folder / "samples.npy", samples(SAMPLES))
    np.save(trial.folder / "probe.npy", samples(PROBE_SAMPLES))


def _on_rank_0(trial: Trial, action: Callable[[], Any]) -> Any:
    """The result of an action of rank 0 on every rank, or its failure (collective)."""
    if trial.ranks == 1:
        return action()
    outcome: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            outcome[0] = action()
        except Exception as error:
            outcome[1] = error
    dist.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def _run(trial: Trial, layout: ParallelSpec, name: str, **changes: Any) -> RunSpec:
    """Train one run; returns its spec. changes: steps, weights, and fields of the RunSpec."""
    weights = str(changes.pop("weights", trial.folder / "weights"))
    steps = changes.pop("steps")
    training = TrainingSpec(
        steps=trial.steps,
        global_batch=GLOBAL_BATCH,
        micro_batch=GLOBAL_BATCH // trial.ranks,
        lr=1e-3,
        min_lr=1e-4,
        warmup_init_lr=1e-4,
        warmup_steps=3,
        decay_steps=trial.steps,
        schedule="cosine",
        weight_decay=0.1,
        beta1=0.9,
        beta2=0.95,
        eps=1e-8,
        clip_grad=1.0,
        seed=SEED,
        # Ignored by a model without routers, as the rate is by one without choice biases.
        aux_loss_coef=0.01,
        router_bias_update_rate=0.001,
    )
    data = DataSpec(
        samples_file=str(trial.folder / "samples.npy"),
        n_samples=SAMPLES,
        seq_length=trial.seq_length,
        vocab_size=trial.config["vocab_size"],
        shuffle_seed=SEED,
    )
    save = CheckpointSpec(save_steps=(trial.half,), export=True)
    spec = RunSpec(
        run_id=name,
        campaign_id="families",
        recipe_id="families",
        role="candidate",
        backend="fsdp2",
        run_dir=str(trial.folder / name),
        world_size=trial.ranks,
        model=ModelSpec(trial.config, weights, ""),
        data=data,
        parallel=layout,
        training=training,
        checkpoint=changes.pop("checkpoint", save),
        stop_step=steps,
        **changes,
    )
    fsdp2.run(spec)
    return spec


def _records(spec: RunSpec) -> RecordFile:
    return read_run(Path(spec.run_dir))[0]


def _state(spec: RunSpec, at: str) -> dict[str, str]:
    return next(s.digests for s in _records(spec).of(State) if s.at == at)


def _losses(trial: Trial, spec: RunSpec) -> dict[str, Any]:
    steps = _records(spec).steps()
    losses = [steps[n].loss for n in sorted(steps)]
    norms = [steps[n].grad_norm for n in sorted(steps)]
    if len(losses) != trial.steps or not all(map(math.isfinite, [*losses, *norms])):
        raise ArithmeticError(f"losses {losses[:3]} ..., gradient norms {norms[:3]} ...")
    if min(norms) <= 0 or not losses[-1] < losses[0]:
        raise ArithmeticError(f"nothing was learned: loss {losses[0]:.4f} then {losses[-1]:.4f}")
    return {"first_loss": losses[0], "last_loss": losses[-1]}


def _resumed(trial: Trial, trained: RunSpec, resumed: RunSpec) -> None:
    before, after = _records(trained).steps(), _records(resumed).steps()
    for step in range(trial.half + 1, trial.steps + 1):
        if before[step].loss_hex != after[step].loss_hex:
            raise ArithmeticError(f"step {step} after the resume differs from the first run's")
    if _state(trained, "end") != _state(resumed, "end"):
        raise ArithmeticError("the state after the resume differs from the first run's")


def _reload(trial: Trial, layout: ParallelSpec, trained: RunSpec) -> RunSpec:
    """The export filled into the backend, and the probe through it.

    In float32 whatever the training used: the export holds the float32 master weights, and which
    tensors a class keeps above bfloat16 is its own affair.
    """
    probe = str(trial.folder / "probe.npy")
    return _run(
        trial,
        dataclasses.replace(layout, param_dtype="float32"),
        "reload",
        steps=0,
        weights=Path(trained.run_dir) / "export",
        evidence=EvidenceSpec(probe_file=probe, probe_rows=PROBE_SAMPLES * trial.seq_length),
        checkpoint=CheckpointSpec(),
    )


def _reloaded(trial: Trial, trained: RunSpec, reloaded: RunSpec) -> None:
    """The stock class loads the export and computes the same logits.

    Experts that were divided over ranks add up in another order, so that equal bits are asked
    for on one rank only.
    """
    if _state(trained, "end")["params"] != _state(reloaded, "init")["params"]:
        raise ArithmeticError("the exported weights are not those that were trained")
    mine = torch.from_numpy(np.array(read_probe(reloaded.run_dir).rows))
    samples = np.load(trial.folder / "probe.npy")
    stock = stock_logits(Path(trained.run_dir) / "export", samples)
    distance = float((mine - stock).abs().max())
    if not distance <= (0.0 if trial.ranks == 1 else 1e-5 * float(stock.abs().max())):
        raise ArithmeticError(f"logits of the reloaded export differ by {distance:.3g}")


def stock_logits(folder: Path, samples: Any) -> torch.Tensor:
    """[positions, vocabulary], float32: the folder loaded as a user of transformers would."""
    model = stock_model(str(folder), "sdpa", torch.float32).eval()
    tokens = torch.from_numpy(samples.astype(np.int64))[:, :-1]
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=tokens, use_cache=False).logits
    return logits.flatten(0, 1).float()
