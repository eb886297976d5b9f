"""The FSDP2 backend: a stock transformers model under fully_shard, with expert parallel."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from certify.errors import UsageError
from certify.records import State
from runner import environment, faults, models, optim, process_group, recovery, rng, weights
from runner.collectives import self_test
from runner.compat import model_class
from runner.data.batches import Batches
from runner.device import Device
from runner.digests import TrainingState
from runner.fast.path import FastPath
from runner.journal import Journal, journal
from runner.loop import Trainer
from runner.manifest import retain, step_folder
from runner.names import names_of
from runner.parallel import fsdp, mesh, shards
from runner.probe import run_probe
from runner.routing import RouterTap

if TYPE_CHECKING:
    from collections.abc import Callable

    from certify.runspec import RunSpec
    from runner.callpoints import Fault


def run(spec: RunSpec) -> int:
    """Train the run of one spec; returns 0. Raises CertifyError for a failure with a name."""
    fault = faults.of_spec(spec)
    with journal(spec) as book:
        device = Device(spec.device, int(os.environ.get("LOCAL_RANK", "0")))
        device.configure(spec.deterministic, spec.threads)
        joined = process_group.join(spec.world_size, device, book)
        _run(spec, device, fault, book)
        if joined:
            dist.destroy_process_group()
    return 0


def _run(spec: RunSpec, device: Device, fault: Fault, book: Journal) -> None:
    writer = book.writer
    writer.write(environment.environment(device))
    if fault.name:
        writer.event("fault_injected", 0, fault=fault.name, side=fault.side)
    meshes = mesh.build(spec.parallel, device.name)
    writer.write(environment.topology(meshes.groups()))
    reduce_dtype = getattr(torch, spec.parallel.reduce_dtype)
    recovery.name_agent(spec, writer)
    self_test(meshes, device, reduce_dtype, fault, writer.write)
    rng.seed_all(spec.training.seed, dist.get_rank())
    trainer = _build(spec, device, meshes, fault, book)
    trainer.stamps = recovery.stamps_of(spec, book.rank)
    first = _restore(trainer, book)
    wanted = spec.evidence
    if wanted.probe_file is not None and first == 1:
        forward = (trainer.model, trainer.tap, wanted.probe_file, wanted.probe_rows)
        run_probe(*forward, device.torch_device, spec.run_dir)
    _train(trainer, first, book)
    _controls(trainer, book)


# ---------------------------------------------------------------------------------------------
# Building.


def _build(
    spec: RunSpec, device: Device, meshes: mesh.Meshes, fault: Fault, book: Journal
) -> Trainer:
    model: Any = models.build(spec.model, fault.model_config(spec.model.hf_config))
    # Before anything divides a tensor: the conversion is that of the whole model.
    names = names_of(model)
    tap = RouterTap(model, fault)
    fast = FastPath.of(spec, device.name)
    fast.prepare(model, tap)
    wrapped = fsdp.parallelise(model, spec.parallel, meshes, fast.holds_all_on_one_rank)
    for pattern in wrapped.unmatched:
        book.writer.event("pattern_unmatched", 0, pattern=pattern)
    models.materialise(model, device.torch_device)
    local = fast.with_masters(shards.collect(model, meshes, wrapped))
    weights.fill(model, local, names, weights.Weights(spec.model.weights_dir))
    fast.publish(local)
    optimizer = fast.optimizer(
        local, optim.build_optimizer(local, names, spec.training, fault, device.name == "cuda")
    )
    batches = Batches(spec.data, spec.training.global_batch)
    trainer = Trainer(
        spec, device, meshes, model, local, names, optimizer, batches, tap, fault, fast
    )
    _write_components(trainer, book)
    _write_state(trainer, "init", 0, book)
    return trainer


def _write_components(trainer: Trainer, book: Journal) -> None:
    """Whose code trains, with values read back from the live objects."""
    training = trainer.spec.training
    optimizer = optim.effective(trainer.optimizer, trainer.shards, training.clip_grad)
    schedule = ("schedule", "lr", "min_lr", "warmup_init_lr", "warmup_steps", "decay_steps")
    described: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        ("model", trainer.model, _model_values(trainer)),
        ("optimizer", trainer.optimizer, optimizer),
        ("scheduler", trainer.rates, {k: getattr(trainer.rates.training, k) for k in schedule}),
        (
            "loss",
            trainer.fast.loss_function,
            {"mean_over": "supervised tokens of the global batch"},
        ),
    )
    for part, subject, values in described:
        book.writer.write(environment.component(part, subject, values))
    owners = {shards.canonical_owner(trainer.model, shard) for shard in trainer.shards}
    book.writer.write(environment.modules(owners))


def _model_values(trainer: Trainer) -> dict[str, Any]:
    config, training = trainer.model.config, trainer.spec.training
    is_moe = bool(trainer.tap.layers)
    return {
        "num_parameters": sum(math.prod(shard.shape) for shard in trainer.shards)
        + sum(b.numel() for b in models.persistent_buffers(trainer.model).values()),
        "num_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "dtype": str(trainer.shards[0].local.dtype).removeprefix("torch."),
        "attention": config._attn_implementation,
        "experts": getattr(config, "_experts_implementation", None),
        "rope": getattr(config, "rope_parameters", getattr(config, "rope_theta", None)),
        "aux_loss_coef": training.aux_loss_coef if is_moe else 0.0,
        "aux_loss_formula": training.aux_loss_formula if is_moe else None,
        "fast": trainer.fast.effective(),
    }


# ---------------------------------------------------------------------------------------------
# State.


def _state(trainer: Trainer) -> TrainingState:
    return TrainingState(
        trainer.shards,
        trainer.names,
        trainer.optimizer,
        trainer.next_batch,
        partial(rng.capture, trainer.device),
        models.persistent_buffers(trainer.model),
    )


def _write_state(trainer: Trainer, at: str, step: int, book: Journal) -> None:
    book.writer.write(State(at=at, step=step, digests=_state(trainer).digests()))


def _load(trainer: Trainer, folder: Path, verify: bool = True) -> int:
    """Load a checkpoint; returns the number of steps it holds (collective)."""
    from runner import checkpoint

    loaded = checkpoint.load(
        folder, trainer.shards, trainer.optimizer, verify, models.persistent_buffers(trainer.model)
    )
    trainer.fault.after_restore(trainer.model, trainer.shards, trainer.spec.checkpoint.resave)
    trainer.fast.publish(trainer.shards)
    trainer.fault.after_load(trainer.optimizer)
    trainer.next_batch = trainer.fault.cursor(loaded.next_batch)
    if loaded.rng is not None and trainer.fault.restores_rng():
        rng.restore(loaded.rng, trainer.device)
    return loaded.step


def _restore(trainer: Trainer, book: Journal) -> int:
    """Resume where the spec says so; returns the first step to train."""
    source = trainer.spec.checkpoint.resume_from
    folder = None if source is None else Path(source)
    if trainer.spec.recovery.agent:
        folder = recovery.newest_whole(trainer.spec.run_dir, book.writer) or folder
    if folder is None:
        if trainer.spec.evidence.controls:
            raise UsageError(
                "negative controls are asked for without a checkpoint to resume",
                where="checkpoint.resume_from",
            )
        return 1
    step = _load(trainer, folder)
    book.writer.event("checkpoint_loaded", step, folder=str(folder))
    _write_state(trainer, "load", step, book)
    if trainer.spec.checkpoint.resave:
        _save(trainer, step, book)
    book.writer.event("resumed", step, next_batch=trainer.next_batch)
    return step + 1


def _save(trainer: Trainer, step: int, book: Journal) -> None:
    from runner import checkpoint

    spec = trainer.spec
    folder = step_folder(spec.run_dir, step)
    trainer.stamps.at("save", step)
    _write_state(trainer, "save", step, book)
    with trainer.fault.while_saving(trainer.shards, models.persistent_buffers(trainer.model)):
        checkpoint.save(folder, _state(trainer), step, spec.run_id)
    book.writer.event("checkpoint_saved", step, folder=folder.name)
    if dist.get_rank() == 0:
        # Where restarts continue from the newest, none is kept for a later phase.
        kept = () if spec.recovery.agent else spec.checkpoint.save_steps
        retain(folder.parent, spec.checkpoint.keep, frozenset(kept))


# ---------------------------------------------------------------------------------------------
# Training.


def _train(trainer: Trainer, first: int, book: Journal) -> None:
    spec = trainer.spec
    for step in range(first, spec.last_step + 1):
        book.writer.write(trainer.step(step))
        book.steps = step
        if step in spec.checkpoint.save_steps:
            _save(trainer, step, book)
    _write_state(trainer, "end", spec.last_step, book)
    if spec.checkpoint.export:
        _export(trainer, book)
    if trainer.routing is not None and dist.get_rank() == 0:
        trainer.routing.write(spec.run_dir)
    trainer.stamps.at("end", spec.last_step)


def _export(trainer: Trainer, book: Journal) -> None:
    from runner.export import export

    spec, model = trainer.spec, trainer.model
    folder = Path(spec.run_dir) / "export"
    config = {**spec.model.hf_config, "architectures": [model_class(model).__name__]}
    buffers = models.persistent_buffers(model)
    export(folder, config, trainer.shards, trainer.names, buffers)
    book.writer.event("exported", spec.last_step, folder=folder.name)


def _drop_optimizer(trainer: Trainer) -> None:
    for state in trainer.optimizer.state.values():
        for value in state.values():
            value.zero_()


def _drop_cursor(trainer: Trainer) -> None:
    trainer.next_batch = 0


_DROPS: dict[str, Callable[[Trainer], None]] = {
    "optimizer-dropped": _drop_optimizer,
    "data-cursor-dropped": _drop_cursor,
}


def _controls(trainer: Trainer, book: Journal) -> None:
    """Resume again with one thing wrong, once per negative control: the judge must notice."""
    trainer.routing = None
    for name in trainer.spec.evidence.controls:
        if name not in _DROPS:
            raise UsageError(
                f"unknown negative control {name!r}",
                where="evidence.controls",
                expected=", ".join(_DROPS),
            )
        step = _load(trainer, Path(str(trainer.spec.checkpoint.resume_from)), verify=False)
        _DROPS[name](trainer)
        writer = book.stream(f"control-{name}")
        writer.event("control_started", step, control=name)
        trainer.train(step + 1, step + trainer.spec.evidence.control_steps, writer)
        writer.close()
