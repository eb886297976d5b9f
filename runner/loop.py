"""One optimizer step after another, and the record of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from certify.records import NoStamps, Stamper, Step, batch_digest
from runner import evidence, loss, optim, rng
from runner.balance import update_biases
from runner.collectives import gather_bytes
from runner.digests import full_tensors
from runner.fast.path import FastPath
from runner.parallel.shards import clear_gradients, collect_gradients
from runner.routing import sets_of

if TYPE_CHECKING:
    from certify.records import Writer
    from certify.runspec import RunSpec
    from runner.callpoints import Fault
    from runner.data.batches import Batch, Batches
    from runner.device import Device
    from runner.names import Names
    from runner.parallel.mesh import Meshes
    from runner.parallel.shards import Shard
    from runner.routing import Routed, RouterTap


@dataclass(frozen=True)
class BatchFacts:
    """A global batch as all ranks together saw it. in_loss: labels that enter the loss (N)."""

    tokens_sha256: str
    mask_sha256: str
    supervised_tokens: int
    in_loss: int


@dataclass(frozen=True)
class Backward:
    """This rank's summands after the backward pass: of the cross-entropy (nats, before division
    by N) and of the auxiliary loss; and the routing of its tokens."""

    cross_entropy: torch.Tensor
    aux: torch.Tensor | None
    routed: list[list[Routed]]


def gather_facts(batch: Batch, mask: torch.Tensor, device: torch.device) -> BatchFacts:
    """Digests and counts of the global batch from those of every rank's part (collective).

    mask: what this rank's part will use in the loss.
    """
    counts = np.array([batch.supervised_tokens, int(mask.sum())], dtype="<i8").tobytes()
    tokens, masks = (
        b"".join(bytes.fromhex(d) for d in digests)
        for digests in (batch.token_digests(), batch.mask_digests())
    )
    packed = torch.frombuffer(bytearray(counts + tokens + masks), dtype=torch.uint8)
    parts = [part.tobytes() for part in gather_bytes(packed.to(device)).cpu().numpy()]
    size = len(tokens)
    totals = sum(np.frombuffer(part[:16], dtype="<i8") for part in parts)

    def joined(first: int) -> str:
        # `batch_digest` takes sample digests as hex; these are the same bytes.
        rows = b"".join(part[first : first + size] for part in parts)
        return batch_digest(rows[i : i + 32].hex() for i in range(0, len(rows), 32))

    return BatchFacts(joined(16), joined(16 + size), int(totals[0]), int(totals[1]))


class Trainer:
    """Everything a step needs. Restoring a checkpoint changes `next_batch` and the tensors."""

    def __init__(
        self,
        spec: RunSpec,
        device: Device,
        meshes: Meshes,
        model: Any,
        shards: list[Shard],
        names: Names,
        optimizer: Any,
        batches: Batches,
        tap: RouterTap,
        fault: Fault,
        fast: FastPath | None = None,
    ) -> None:
        self.spec, self.device, self.meshes = spec, device, meshes
        self.model, self.shards, self.names = model, shards, names
        self.optimizer, self.batches = optimizer, batches
        self.tap, self.fault = tap, fault
        self.fast = fast or FastPath()
        self.rates = optim.LearningRate(spec.training)
        self.next_batch = 0
        self.stamps: Stamper | NoStamps = NoStamps()
        self.routing = evidence.RoutingLog(tap.layers) if spec.evidence.routing else None

    # -- one step ---------------------------------------------------------------------------

    def step(self, step: int) -> Step:
        """Train one step on batch `next_batch` and return its record (collective)."""
        self.device.synchronize()
        start_s = time.perf_counter()
        self.stamps.at("data", step)
        batch = self.batches.read(self.next_batch, dist.get_rank(), dist.get_world_size())
        mask = self.fault.loss_mask(torch.from_numpy(batch.mask.copy()))
        facts = gather_facts(batch, mask, self.device.torch_device)
        rate = self.rates(self.fault.schedule_index(step - 1))
        optim.set_rate(self.optimizer, rate)
        done = self._backward(step, batch, mask, facts.in_loss)
        self.stamps.at("optimizer", step)
        collect_gradients(self.shards)
        self.fault.gradients(self.shards, self.meshes.ep_size)
        self._write_first(step, evidence.GRADIENTS)
        mean_loss, aux, norm = self._totals(done, facts.in_loss)
        mean_loss = self.fault.recorded_loss(step, mean_loss)
        norm = self.fault.norm(norm, self.shards)
        self.fast.clip(self.optimizer, self.shards, norm, self.spec.training.clip_grad)
        self.optimizer.step()
        self.fault.after_update(self.shards)
        clear_gradients(self.shards)
        update_biases(self.tap.biases, done.routed, self.spec.training.router_bias_update_rate)
        rng.advance(self.device)
        routing_sha256 = self._log_routing(step, done.routed)
        self.device.synchronize()
        step_time_s = time.perf_counter() - start_s
        self._write_first(step, evidence.PARAMETERS)
        self.next_batch += 1
        return Step(
            step=step,
            loss=mean_loss,
            loss_hex=mean_loss.hex(),
            grad_norm=norm,
            grad_norm_hex=norm.hex(),
            lr=rate,
            tokens=self._global_tokens(),
            supervised_tokens=facts.supervised_tokens,
            tokens_sha256=facts.tokens_sha256,
            mask_sha256=facts.mask_sha256,
            batch=batch.index,
            step_time_s=step_time_s,
            peak_bytes=self.device.peak_bytes(),
            aux_loss=aux,
            routing_sha256=routing_sha256,
        )

    def _global_tokens(self) -> int:
        return self.spec.training.global_batch * self.spec.data.seq_length

    def _totals(self, done: Backward, in_loss: int) -> tuple[float, float | None, float]:
        """(mean loss, auxiliary loss, gradient norm) of the global batch."""
        dtype = self.device.sum_dtype
        parts = [done.cross_entropy, self.fast.square_sum(self.shards, dtype)]
        if done.aux is not None:
            parts.append(done.aux)
        totals = optim.global_sum(parts, dtype, self.device.torch_device)
        aux = totals[2] if done.aux is not None else None
        return totals[0] / max(in_loss, 1), aux, totals[1] ** 0.5

    # -- forward and backward ---------------------------------------------------------------

    def _micro_batches(self, batch: Batch, mask: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
        """(inputs, labels, mask) of each micro-batch, on the device."""
        where = self.device.torch_device
        inputs = torch.from_numpy(batch.inputs.astype(np.int64)).to(where)
        labels = torch.from_numpy(batch.labels.astype(np.int64)).to(where)
        size = self.spec.training.micro_batch
        parts = [t.split(size) for t in (inputs, labels, mask.to(where))]
        return list(zip(*parts, strict=True))

    def _forward(self, *micro_batch: torch.Tensor) -> tuple[torch.Tensor, list[Routed]]:
        """(sum of the cross-entropy, routing) of (inputs, labels, mask)."""
        with self.tap.recording() as routed:
            return self.fast.cross_entropy_sum(self.model, *micro_batch), routed

    def _backward(self, step: int, batch: Batch, mask: torch.Tensor, in_loss: int) -> Backward:
        micro_batches = self.fault.micro_batches(self._micro_batches(batch, mask))
        weights: torch.Tensor | None = None
        if self.tap.layers and len(micro_batches) > 1:
            # The gradient of the auxiliary loss needs the counts of the whole global batch
            # before the first backward pass: route everything once without gradients.
            with torch.no_grad():
                ahead = [self._forward(*one)[1] for one in micro_batches]
            weights = self._aux_weights(ahead)
        scale = 1.0 / max(in_loss, 1)
        coefficient = self.fault.aux_coefficient(self.spec.training.aux_loss_coef)
        sums, aux_sums, all_routed = [], [], []
        for one in micro_batches:
            self.stamps.at("forward", step)
            cross_entropy, routed = self._forward(*one)
            total = cross_entropy * self.fault.loss_scale(scale, one[2], len(micro_batches))
            if routed:
                if weights is None:
                    weights = self._aux_weights([routed])
                aux = loss.aux_summand(routed, weights)
                total = total + aux * coefficient
                aux_sums.append(aux.detach())
            self.stamps.at("backward", step)
            total.backward()
            sums.append(cross_entropy.detach())
            all_routed.append([r.detached() for r in routed])
        dtype = self.device.sum_dtype
        aux_total = torch.stack(aux_sums).to(dtype).sum() if aux_sums else None
        return Backward(torch.stack(sums).to(dtype).sum(), aux_total, all_routed)

    def _aux_weights(self, routed: list[list[Routed]]) -> torch.Tensor:
        dtype = self.device.sum_dtype
        counts = torch.stack([loss.expert_counts(r, dtype) for r in routed]).sum(0)
        k = routed[0][0].ids.shape[-1]
        formula = self.spec.training.aux_loss_formula
        return loss.aux_weights(loss.sum_over_ranks(counts), k, self._global_tokens(), formula)

    # -- evidence ---------------------------------------------------------------------------

    def _write_first(self, step: int, name: str) -> None:
        """The full gradients or parameters of step 1, where the spec asks for them."""
        wanted = self.spec.evidence
        asked = wanted.gradients if name == evidence.GRADIENTS else wanted.first_update
        if step != 1 or not asked:
            return

        def part(shard: Shard) -> torch.Tensor:
            return _gradient(shard) if name == evidence.GRADIENTS else shard.local

        tensors = full_tensors(self.shards, self.names, part)
        if dist.get_rank() == 0:
            evidence.write_tensors(self.spec.run_dir, name, tensors)

    def _log_routing(self, step: int, routed: list[list[Routed]]) -> str | None:
        """Gather the top-k sets of the global batch; returns their digest (collective)."""
        if self.routing is None or not self.tap.layers:
            return None
        sets = [sets_of(one) for one in routed]
        # [ranks, layers, tokens, ...] -> [layers, ranks x tokens, ...]: global sample order.
        ids = gather_bytes(torch.cat([s[0] for s in sets], dim=1)).transpose(0, 1).flatten(1, 2)
        gap = gather_bytes(torch.cat([s[1] for s in sets], dim=1)).transpose(0, 1).flatten(1, 2)
        table = ids.cpu().numpy()
        if dist.get_rank() == 0:
            self.routing.append(step, table, gap.cpu().numpy())
        return evidence.routing_digest(table)

    def train(self, first: int, last: int, writer: Writer) -> None:
        """Train steps first to last without saving, and write their records."""
        for step in range(first, last + 1):
            writer.write(self.step(step))


def _gradient(shard: Shard) -> torch.Tensor:
    """The local gradient; zeros for a parameter that the loss does not reach."""
    gradient = shard.local.grad
    return torch.zeros_like(shard.local) if gradient is None else gradient.to(shard.local.dtype)
