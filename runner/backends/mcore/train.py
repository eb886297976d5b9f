"""The training loop of the backend: Megatron's schedule, optimizer and scheduler; our records.

A step is what Megatron-LM's own training does: clear the gradient buffers, run the
forward-backward schedule, step the optimizer, step the scheduler.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.pipeline_parallel import get_forward_backward_func

from certify.errors import UsageError
from certify.records import State, Step, batch_digest
from runner import evidence, rng
from runner import faults as registry
from runner.backends.mcore import (
    checkpoint,
    collectives,
    describe,
    export,
    families,
    faults,
    parallel,
    placement,
    probe,
    state,
    weights,
)
from runner.backends.mcore import model as models
from runner.backends.mcore.mapping import WeightMap
from runner.backends.mcore.routing import RouterObserver
from runner.data.batches import Batches
from runner.manifest import retain, step_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from certify.records import Writer
    from certify.runspec import RunSpec
    from runner.backends.mcore.placement import Place
    from runner.callpoints import Fault
    from runner.data.batches import Batch
    from runner.device import Device
    from runner.journal import Journal


@dataclass
class Session:
    """What one rank of a run holds while it trains. next_batch: the data cursor."""

    spec: RunSpec
    writer: Writer
    device: Device
    names: WeightMap
    parts: models.Parts
    places: list[Place]
    observer: RouterObserver
    batches: Batches
    fault: Fault
    routing: evidence.RoutingLog | None = None
    next_batch: int = 0

    @property
    def micro_batches(self) -> int:
        """Of one data-parallel rank in one step."""
        training = self.spec.training
        return training.global_batch // (training.micro_batch * parallel.data_rank()[1])

    @property
    def moe(self) -> bool:
        return any(families.moe_layers(self.spec.model.hf_config))


def train(spec: RunSpec, book: Journal, device: Device) -> None:
    """Train to the last step of the spec, writing records, evidence and checkpoints.

    Raises UsageError for weights, data or faults that are not what the spec says.
    """
    fault = registry.of_spec(spec)
    rng.seed_all(spec.training.seed, dist.get_rank())
    parallel.start(spec, device)
    try:
        collectives.self_test(spec, device, fault, book.writer.write)
        session = prepare(spec, book.writer, device, fault)
        first = _restore(session)
        if spec.evidence.probe_file is not None and first == 1:
            found = probe.run(session.parts.chunks, session.observer, session.moe, session.spec)
            if dist.get_rank() == 0:
                evidence.write_probe(spec.run_dir, found)
        for number in range(first, spec.last_step + 1):
            book.writer.write(step(session, number))
            book.steps = number
            if number in spec.checkpoint.save_steps:
                _save(session, number)
        if session.routing is not None and dist.get_rank() == 0:
            session.routing.write(spec.run_dir)
        _write_state(session, "end", spec.last_step)
        if spec.checkpoint.export:
            export.export(spec, session.places, session.names)
            book.writer.event("exported", spec.last_step, folder="export")
        _controls(session, book)
    finally:
        parallel.stop()


def prepare(spec: RunSpec, writer: Writer, device: Device, fault: Fault) -> Session:
    """Build everything and record what it is.

    Order matters: the digest of the initial weights is recorded before a fault may change them,
    and the probe sees the weights that training starts from.
    """
    names = WeightMap(spec.model.hf_config)
    batches = Batches(spec.data, spec.training.global_batch)
    spec = faults.on_spec(spec, fault)
    built = models.build(spec)
    places = placement.places(built, names)
    weights.load(places, weights.read(spec.model.weights_dir), names)
    parts = models.wrap(built, spec)
    faults.on_parts(parts, fault)
    observer = RouterObserver(built)
    session = Session(spec, writer, device, names, parts, places, observer, batches, fault)
    record_start(session)
    faults.on_weights(spec, places, fault, writer)
    return session


def record_start(session: Session) -> None:
    """Records that precede the first step. Raises UsageError for weights other than planned."""
    spec, writer = session.spec, session.writer
    writer.write(describe.environment(session.device))
    writer.write(parallel.topology())
    for component in describe.components(session.parts, session.places, spec):
        writer.write(component)
    writer.write(describe.modules(session.parts))
    digests = _write_state(session, "init", 0)
    if spec.model.weights_digest and digests["params"] != spec.model.weights_digest:
        raise UsageError(
            f"the initial weights have digest {digests['params']}",
            where=spec.model.weights_dir,
            expected=f"{spec.model.weights_digest}, as the run spec says",
            hint="run the phase `prepare` again",
        )


# ---------------------------------------------------------------------------------------------
# One step.


def step(session: Session, number: int) -> Step:
    """One optimizer step on global batch `next_batch` (collective)."""
    spec, parts, fault = session.spec, session.parts, session.fault
    started = time.perf_counter()
    rank, ranks = parallel.data_rank()
    batch = session.batches.read(session.next_batch, rank, ranks)
    group = parallel_state.get_data_parallel_group()
    seen = parallel.everyone(
        (batch.token_digests(), batch.mask_digests(), batch.supervised_tokens), group
    )
    for chunk in parts.chunks:
        chunk.zero_grad_buffer()
    parts.optimizer.zero_grad()
    loss = forward_backward(session, batch)
    faults.on_gradients(session.places, fault, spec.parallel.ep_size)
    if number == 1 and spec.evidence.gradients:
        state.gather_gradients(parts)
        _write_tensors(session, evidence.GRADIENTS, lambda place: place.parameter.main_grad)
    if (index := fault.schedule_index(number - 1)) != number - 1:
        parts.scheduler.step(increment=index - parts.scheduler.num_steps)
    rate = parts.optimizer.param_groups[0]["lr"]
    _, norm, _ = parts.optimizer.step()
    if index == number - 1:
        parts.scheduler.step(increment=1)
    rng.advance(session.device)
    session.device.synchronize()
    elapsed = time.perf_counter() - started
    if number == 1 and spec.evidence.first_update:
        _write_tensors(session, evidence.PARAMETERS, lambda place: place.parameter.detach())
    session.next_batch += 1
    auxiliary = session.observer.take_auxiliary_loss(session.micro_batches) if session.moe else None
    return Step(
        step=number,
        loss=loss,
        loss_hex=loss.hex(),
        grad_norm=float(norm),
        grad_norm_hex=float(norm).hex(),
        lr=rate,
        tokens=batch.inputs.size * ranks,
        supervised_tokens=sum(part[2] for part in seen),
        tokens_sha256=batch_digest([digest for part in seen for digest in part[0]]),
        mask_sha256=batch_digest([digest for part in seen for digest in part[1]]),
        batch=batch.index,
        step_time_s=elapsed,
        peak_bytes=session.device.peak_bytes(),
        aux_loss=auxiliary,
        routing_sha256=record_routing(session, number),
    )


def record_routing(session: Session, number: int) -> str | None:
    """Digest of the step's top-k sets, kept for ``routing.npz`` when asked; None if dense."""
    if not session.moe:
        return None
    taken = session.observer.take()
    if session.spec.evidence.routing:
        if session.routing is None:
            session.routing = evidence.RoutingLog(taken.layers)
        session.routing.append(number, taken.ids, taken.gap)
    return evidence.routing_digest(taken.ids)


def forward_backward(session: Session, batch: Batch) -> float:
    """Megatron's schedule over the micro-batches. Returns the mean cross-entropy per supervised
    token of the global batch, on every rank (collective)."""
    spec, chunks = session.spec, session.parts.chunks
    mask = session.fault.loss_mask(torch.from_numpy(batch.mask.copy()))
    losses = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=[micro_batches(spec, batch, mask) for _ in chunks],
        model=chunks,
        num_microbatches=session.micro_batches,
        seq_length=spec.data.seq_length,
        micro_batch_size=spec.training.micro_batch,
    )
    has_loss = parallel.is_last_stage() and parallel.first_of_tensor_parallel()
    mine = (sum(float(part["total"]) for part in losses), int(mask.sum())) if has_loss else (0.0, 0)
    totals = parallel.everyone(mine)
    return sum(total for total, _ in totals) / max(sum(count for _, count in totals), 1)


def micro_batches(spec: RunSpec, batch: Batch, mask: Tensor) -> Iterator[dict[str, Tensor]]:
    """Consecutive parts of this rank's share of the global batch, on the device."""
    size = spec.training.micro_batch
    for first in range(0, len(batch.tokens), size):
        part = slice(first, first + size)
        yield {
            "inputs": torch.from_numpy(batch.inputs[part].astype("int64")).to(spec.device),
            "labels": torch.from_numpy(batch.labels[part].astype("int64")).to(spec.device),
            "mask": mask[part].float().to(spec.device),
        }


def forward_step(data: Iterator[dict[str, Tensor]], model: Any) -> tuple[Tensor, Any]:
    """One micro-batch, in the form that Megatron's schedules call.

    Returns the loss of each token [B, S] and the function that reduces it to
    (sum, supervised tokens, what to report); the schedule divides and goes backward.
    """
    part = next(data)
    losses = model(part["inputs"], positions(part["inputs"]), None, labels=part["labels"])

    def reduce(losses: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        kept = losses * part["mask"]
        # Reported from float64: the sum of many float32 terms would add noise of its own.
        report = {"total": kept.detach().double().sum()}
        return kept.sum(), part["mask"].sum().to(torch.int), report

    return losses, reduce


def positions(inputs: Tensor) -> Tensor:
    """Position ids [B, S], from 0 in every sample."""
    return torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)


def _write_tensors(session: Session, name: str, value: Callable[[Place], Tensor]) -> None:
    found = weights.on_rank_0(weights.canonical(session.places, session.names, value))
    if dist.get_rank() == 0:
        evidence.write_tensors(session.spec.run_dir, name, found)


# ---------------------------------------------------------------------------------------------
# State, checkpoints, controls.


def _write_state(session: Session, at: str, number: int) -> dict[str, str]:
    parts = (session.parts, session.places, session.names, session.device, session.next_batch)
    digests = state.digests(*parts)
    session.writer.write(State(at, number, digests))
    return digests


def _save(session: Session, number: int) -> None:
    spec = session.spec
    folder = step_folder(spec.run_dir, number)
    _write_state(session, "save", number)
    checkpoint.save(folder, session.parts, number, rng.capture(session.device), spec.run_id)
    session.writer.event("checkpoint_saved", number, folder=folder.name)
    if dist.get_rank() == 0:
        retain(folder.parent, spec.checkpoint.keep, frozenset(spec.checkpoint.save_steps))


def _load(session: Session, verify: bool = True) -> int:
    """Load the checkpoint of the spec; returns the number of steps it holds (collective)."""
    folder = Path(str(session.spec.checkpoint.resume_from))
    loaded = checkpoint.load(folder, session.parts, verify)
    for inner in session.parts.inner:
        session.fault.after_load(inner.optimizer)
    session.next_batch = session.fault.cursor(loaded.next_batch)
    if loaded.rng is not None and session.fault.restores_rng():
        rng.restore(loaded.rng, session.device)
    return loaded.step


def _restore(session: Session) -> int:
    """Resume where the spec says so; returns the first step to train."""
    spec = session.spec
    if spec.checkpoint.resume_from is None:
        if spec.evidence.controls:
            raise UsageError(
                "negative controls are asked for without a checkpoint to resume",
                where="checkpoint.resume_from",
            )
        return 1
    done = _load(session)
    session.writer.event("checkpoint_loaded", done, folder=str(spec.checkpoint.resume_from))
    _write_state(session, "load", done)
    session.writer.event("resumed", done, next_batch=session.next_batch)
    return done + 1


def _drop_optimizer(session: Session) -> None:
    for inner in session.parts.inner:
        for held in inner.optimizer.state.values():
            for value in held.values():
                value.zero_()


def _drop_cursor(session: Session) -> None:
    session.next_batch = 0


_DROPS: dict[str, Callable[[Session], None]] = {
    "optimizer-dropped": _drop_optimizer,
    "data-cursor-dropped": _drop_cursor,
}


def _controls(session: Session, book: Journal) -> None:
    """Resume again with one thing wrong, once per negative control: the judge must notice."""
    for name in session.spec.evidence.controls:
        if name not in _DROPS:
            raise UsageError(
                f"unknown negative control {name!r}",
                where="evidence.controls",
                expected=", ".join(_DROPS),
            )
        done = _load(session, verify=False)
        _DROPS[name](session)
        writer = book.stream(f"control-{name}")
        writer.event("control_started", done, control=name)
        for number in range(done + 1, done + session.spec.evidence.control_steps + 1):
            writer.write(step(session, number))
        writer.close()
