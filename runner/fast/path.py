"""The fast path of one run: what is on, and what training asks of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from runner import loss, optim
from runner.fast import attention, blocks, experts, masters
from runner.fast.head import ChunkedHead, linear_cross_entropy_sum
from runner.fast.switches import Switches, resolve
from runner.parallel import fsdp

if TYPE_CHECKING:
    from torch import nn

    from certify.runspec import RunSpec
    from runner.parallel.shards import Shard
    from runner.routing import RouterTap


class FastPath:
    """Without arguments: the plain path. Call `prepare` before the model is divided."""

    def __init__(
        self, switches: Switches | None = None, spec: RunSpec | None = None, device: str = "cpu"
    ) -> None:
        self.switches, self.spec = switches or Switches(), spec
        self.order = attention.preferred(device) if self.switches.attention_kernels else ()
        self.head: ChunkedHead | None = None
        self.compiled: list[str] = []
        self.experts: list[str] = []

    @classmethod
    def of(cls, spec: RunSpec, device: str) -> FastPath:
        """That of a run. Raises UsageError as `runner.fast.switches.resolve`."""
        return cls(resolve(spec), spec, device)

    # -- building ---------------------------------------------------------------------------

    @property
    def holds_all_on_one_rank(self) -> bool:
        """Whether fully_shard would only copy: one rank, in the type it computes in."""
        return self.switches.master_weights and dist.get_world_size() == 1

    def prepare(self, model: nn.Module, tap: RouterTap) -> None:
        """Change a stock model on the meta device, before it is divided and sharded."""
        spec = self.spec
        if spec is None:
            return
        names = [name for name, _ in model.named_modules() if name]
        if self.switches.fused_experts:
            self.experts = experts.install(model)
        if self.switches.chunked_loss:
            compiled = self.switches.compile_blocks
            self.head = ChunkedHead(model, spec.speed.chunk_tokens, compiled)
        if self.switches.compile_blocks:
            repeated = [p for p in spec.parallel.fsdp_modules if "{*}" in p]
            found = fsdp.matches(repeated, names).values()
            self.compiled = blocks.compile_blocks(model, [n for hit in found for n in hit], tap)
        if self.switches.master_weights:
            ignored = fsdp.matches(spec.parallel.ignored_modules, names).values()
            stems = tuple(f"{n}." for hit in ignored for n in hit)
            kept = {n for n, _ in model.named_parameters() if stems and n.startswith(stems)}
            dtype = getattr(torch, spec.parallel.param_dtype)
            masters.lower_precision(model, dtype, frozenset(kept))

    def with_masters(self, shards: list[Shard]) -> list[Shard]:
        """The shards that are trained."""
        if not self.switches.master_weights or self.spec is None:
            return shards
        return masters.with_masters(shards, getattr(torch, self.spec.parallel.param_dtype))

    def publish(self, shards: list[Shard]) -> None:
        """After weights or a checkpoint were loaded into the shards."""
        if self.switches.master_weights:
            masters.publish(shards)

    def optimizer(self, shards: list[Shard], plain: Any) -> Any:
        """The optimizer that trains: the plain one, or one with its groups and its options."""
        if not self.switches.master_weights:
            return plain
        return masters.optimizer(shards, plain)

    # -- training ---------------------------------------------------------------------------

    @property
    def loss_function(self) -> Any:
        """The function that computes the cross-entropy."""
        return loss.cross_entropy_sum if self.head is None else linear_cross_entropy_sum

    def cross_entropy_sum(
        self, model: Any, inputs: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """`runner.loss.cross_entropy_sum` of the model on one micro-batch."""
        with attention.kernels(self.order):
            if self.head is not None:
                return self.head.loss(inputs, labels, mask)
            logits = model(input_ids=inputs, use_cache=False).logits
            return loss.cross_entropy_sum(logits, labels, mask)

    def square_sum(self, shards: list[Shard], dtype: torch.dtype) -> torch.Tensor:
        """`runner.optim.local_square_sum`."""
        if self.switches.master_weights:
            return masters.square_sum(shards, dtype)
        return optim.local_square_sum(shards, dtype)

    def clip(self, optimizer: Any, shards: list[Shard], norm: float, limit: float) -> None:
        """`runner.optim.clip`; a master optimizer scales as it reads."""
        if self.switches.master_weights:
            optimizer.gradient_factor = optim.clip_factor(norm, limit)
        else:
            optim.clip(shards, norm, limit)

    def effective(self) -> dict[str, Any]:
        """What is on, and where: for the record of components."""
        return {
            **asdict(self.switches),
            "compiled_modules": len(self.compiled),
            "experts_modules": len(self.experts),
            "attention_order": list(self.order),
            "loss_chunk": self.spec.speed.chunk_tokens if self.head and self.spec else None,
        }
