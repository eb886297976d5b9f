"""The training loop of the mcore backend, and what it records."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from megatron.core.pipeline_parallel import get_forward_backward_func

from certify.errors import UsageError
from certify.records import State, Step, batch_digest, root_digest
from runner import evidence, rng
from runner.backends.mcore import describe, faults, parallel, probe, weights
from runner.backends.mcore import model as models
from runner.backends.mcore.mapping import WeightMap
from runner.backends.mcore.routing import RouterObserver
from runner.data.batches import Batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from certify.records import Writer
    from certify.runspec import RunSpec
    from runner.data.batches import Batch
    from runner.device import Device
    from runner.journal import Journal


@dataclass
class Session:
    """What one run holds while it trains."""

    spec: RunSpec
    writer: Writer
    device: Device
    names: WeightMap
    parts: models.Parts
    observer: RouterObserver
    batches: Batches
    routing: evidence.RoutingLog

    @property
    def micro_batches(self) -> int:
        training = self.spec.training
        return training.global_batch // training.micro_batch


def train(spec: RunSpec, book: Journal, device: Device) -> None:
    """Train to the last step of the spec, writing records and evidence.

    Raises UsageError for weights, data or faults that are not what the spec says.
    """
    rng.seed_all(spec.training.seed, rank=0)
    parallel.start(device, spec.training.seed)
    try:
        session = prepare(spec, book.writer, device)
        for number in range(1, spec.last_step + 1):
            book.writer.write(step(session, number))
            book.steps = number
        session.routing.write(spec.run_dir)
        book.writer.write(State("end", spec.last_step, state_digests(session, spec.last_step)))
    finally:
        parallel.stop()


def prepare(spec: RunSpec, writer: Writer, device: Device) -> Session:
    """Build everything, record what it is, and run what belongs before step 1.

    Order matters: the digest of the initial weights is recorded before a fault may change them,
    and the probe sees the weights that training starts from.
    """
    names = WeightMap(spec.model.hf_config)
    batches = Batches(spec.data, spec.training.global_batch)
    spec = faults.on_spec(spec)
    model = models.build(spec)
    weights.load(model, weights.read(spec.model.weights_dir), names)
    parts = models.wrap(model, spec)
    observer = RouterObserver(model)
    routing = evidence.RoutingLog(observer.layers)
    session = Session(spec, writer, device, names, parts, observer, batches, routing)
    record_start(session)
    faults.on_weights(spec, weights.parameters(model, names), writer)
    if spec.evidence.probe_file is not None:
        found = probe.run(model, observer, spec)
        evidence.write_probe(spec.run_dir, found)
    return session


def record_start(session: Session) -> None:
    """Records that precede the first step. Raises UsageError for weights other than planned."""
    spec, writer = session.spec, session.writer
    writer.write(describe.environment(session.device))
    writer.write(parallel.topology())
    for component in describe.components(session.parts):
        writer.write(component)
    writer.write(describe.modules(session.parts))
    digests = state_digests(session, 0)
    writer.write(State("init", 0, digests))
    if digests["params"] != spec.model.weights_digest:
        raise UsageError(
            f"the initial weights have digest {digests['params']}",
            where=spec.model.weights_dir,
            expected=f"{spec.model.weights_digest}, as the run spec says",
            hint="run the phase `prepare` again",
        )


def step(session: Session, number: int) -> Step:
    """One optimizer step on global batch `number` - 1."""
    spec, parts = session.spec, session.parts
    started = time.perf_counter()
    batch = session.batches.read(number - 1)
    parts.ddp.zero_grad_buffer()
    parts.optimizer.zero_grad()
    loss = forward_backward(session, batch)
    if number == 1 and spec.evidence.gradients:
        found = weights.gradients(parts.model, session.names)
        evidence.write_tensors(spec.run_dir, evidence.GRADIENTS, found)
    rate = parts.optimizer.param_groups[0]["lr"]
    _, norm, _ = parts.optimizer.step()
    parts.scheduler.step(increment=1)
    rng.advance(session.device)
    session.device.synchronize()
    elapsed = time.perf_counter() - started
    if number == 1 and spec.evidence.first_update:
        found = weights.parameters(parts.model, session.names)
        evidence.write_tensors(spec.run_dir, evidence.PARAMETERS, found)
    return Step(
        step=number,
        loss=loss,
        loss_hex=loss.hex(),
        grad_norm=float(norm),
        grad_norm_hex=float(norm).hex(),
        lr=rate,
        tokens=batch.inputs.size,
        supervised_tokens=batch.supervised_tokens,
        tokens_sha256=batch_digest(batch.token_digests()),
        mask_sha256=batch_digest(batch.mask_digests()),
        batch=batch.index,
        step_time_s=elapsed,
        peak_bytes=session.device.peak_bytes(),
        aux_loss=session.observer.take_auxiliary_loss(session.micro_batches),
        routing_sha256=record_routing(session, number),
    )


def record_routing(session: Session, number: int) -> str | None:
    """Digest of the step's top-k sets, kept for ``routing.npz`` when asked; None if dense."""
    if not session.observer.layers:
        return None
    ids, gap = session.observer.take()
    if session.spec.evidence.routing:
        session.routing.append(number, ids, gap)
    return evidence.routing_digest(ids)


def forward_backward(session: Session, batch: Batch) -> float:
    """Megatron's schedule over the micro-batches. Returns the mean cross-entropy per token."""
    spec, ddp = session.spec, session.parts.ddp
    losses = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=micro_batches(spec, batch),
        model=[ddp],
        num_microbatches=session.micro_batches,
        seq_length=spec.data.seq_length,
        micro_batch_size=spec.training.micro_batch,
    )
    total = sum(float(part["total"]) for part in losses)
    return total / max(batch.supervised_tokens, 1)


def micro_batches(spec: RunSpec, batch: Batch) -> Iterator[dict[str, Tensor]]:
    """Consecutive parts of the global batch, on the device."""
    size = spec.training.micro_batch
    for first in range(0, len(batch.tokens), size):
        part = slice(first, first + size)
        yield {
            "inputs": torch.from_numpy(batch.inputs[part].astype("int64")).to(spec.device),
            "labels": torch.from_numpy(batch.labels[part].astype("int64")).to(spec.device),
            "mask": torch.from_numpy(batch.mask[part].astype("float32")).to(spec.device),
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


def state_digests(session: Session, done: int) -> dict[str, str]:
    """Digests of parameters, and after the first step of the optimizer's state too."""
    model, names = session.parts.model, session.names
    digests = {"params": weights.digest(weights.parameters(model, names))}
    (inner,) = session.parts.optimizer.chained_optimizers
    states = {name: inner.optimizer.state.get(p) for name, p in model.named_parameters()}
    if all(states.values()):
        for part in ("exp_avg", "exp_avg_sq"):
            moments = {name: state[part] for name, state in states.items() if state}
            digests[part] = weights.digest(names.to_hf(moments))
        counts = {float(state["step"]) for state in states.values() if state}
        digests["optimizer_step"] = _scalars(sorted(counts))
    groups = inner.param_groups
    digests["lr"] = _scalars([group["lr"] for group in groups])
    digests["weight_decay"] = _scalars([group["weight_decay"] for group in groups])
    digests["data_cursor"] = _scalars([float(done)])
    digests["rng.rank-0"] = hashlib.sha256(rng.capture(session.device)).hexdigest()
    return digests


def _scalars(values: list[float]) -> str:
    return root_digest({str(i): value.hex() for i, value in enumerate(values)})
