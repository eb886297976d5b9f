"""Model weights in low precision, the optimizer's in float32, both written in one pass.

What fully_shard's mixed precision computes, without a cast of every weight in every step: the
model holds round(master), and AdamW writes it where it writes the master.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from runner.parallel.shards import local_part

if TYPE_CHECKING:
    from runner.parallel.shards import Shard


def lower_precision(model: nn.Module, dtype: torch.dtype, kept: frozenset[str]) -> None:
    """Turn parameters of a model on the meta device into `dtype`, ties kept; buffers stay.

    kept: names of parameters that stay as they are.
    """
    for name, parameter in model.named_parameters():
        if name not in kept and parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)


def with_masters(shards: list[Shard], dtype: torch.dtype) -> list[Shard]:
    """The same shards with a float32 `local` of its own where the model holds `dtype`."""
    found = []
    for shard in shards:
        if shard.local.dtype == dtype:
            master = nn.Parameter(shard.local.detach().float())
            if hasattr(master, "grad_dtype"):
                # Gradients stay in the type in which they arrive, where torch allows it.
                master.grad_dtype = None
            shard = replace(shard, local=master)
        found.append(shard)
    return found


def publish(shards: list[Shard]) -> None:
    """Write every master into the model: after weights or a checkpoint were loaded."""
    with torch.no_grad():
        for shard in shards:
            if shard.local.dtype != shard.parameter.dtype:
                local_part(shard.parameter).copy_(shard.local)


def square_sum(shards: list[Shard], dtype: torch.dtype) -> torch.Tensor:
    """`runner.optim.local_square_sum` in one pass over the gradients, accumulated in float32."""
    parts = [(s.local.grad, s.copies) for s in shards if s.local.grad is not None]
    norms = torch._foreach_norm([grad for grad, _ in parts], 2, dtype=torch.float32)
    copies = torch.tensor([float(n) for _, n in parts], dtype=dtype, device=norms[0].device)
    total: torch.Tensor = (torch.stack(norms).to(dtype).square() / copies).sum()
    return total


class MasterAdamW(torch.optim.AdamW):  # type: ignore[misc]
    """AdamW that also scales the gradient and writes the model's low-precision copy.

    copies: id of a master -> its copy in the model. gradient_factor: what every gradient is
    multiplied with, in float32, before it is used; set before each step.
    """

    def __init__(self, groups: Any, copies: dict[int, torch.Tensor], **options: Any) -> None:
        super().__init__(groups, **options)
        self.copies = copies
        self.gradient_factor = 1.0

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        """One step over every parameter that has a gradient."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for master in group["params"]:
                if master.grad is None:
                    continue
                state = self.state[master]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.float32)
                    state["exp_avg"] = torch.zeros_like(master)
                    state["exp_avg_sq"] = torch.zeros_like(master)
                state["step"] += 1
                count = int(state["step"])
                _update(
                    master,
                    master.grad,
                    state["exp_avg"],
                    state["exp_avg_sq"],
                    self.copies.get(id(master)),
                    factor=self.gradient_factor,
                    keep=1.0 - group["lr"] * group["weight_decay"],
                    beta1=beta1,
                    beta2=beta2,
                    rate=group["lr"] / (1.0 - beta1**count),
                    root=math.sqrt(1.0 - beta2**count),
                    eps=group["eps"],
                )


def _update(
    master: torch.Tensor,
    grad: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    copy: torch.Tensor | None,
    **numbers: float,
) -> None:
    if master.is_cuda and all(t.is_contiguous() for t in (master, first, second)):
        from runner.fast.adamw_kernel import launch

        launch(master, grad.contiguous(), first, second, copy, **numbers)
        return
    plain_update(master, grad, first, second, **numbers)
    if copy is not None:
        copy.copy_(master)


def plain_update(
    master: torch.Tensor,
    grad: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    *,
    factor: float,
    keep: float,
    beta1: float,
    beta2: float,
    rate: float,
    root: float,
    eps: float,
) -> None:
    """AdamW of one tensor in place (Loshchilov and Hutter, decoupled decay).

    keep: 1 - lr x decay; rate: lr / (1 - beta1^t); root: sqrt(1 - beta2^t).
    """
    gradient = grad.float() * factor
    master.mul_(keep)
    first.lerp_(gradient, 1.0 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
    master.addcdiv_(first, (second.sqrt() / root).add_(eps), value=-rate)


def optimizer(shards: list[Shard], plain: Any) -> MasterAdamW:
    """A `MasterAdamW` with the groups and options of a plain AdamW over the same shards."""
    copies = {
        id(s.local): local_part(s.parameter) for s in shards if s.local.dtype != s.parameter.dtype
    }
    keys = ("params", "lr", "betas", "eps", "weight_decay")
    groups = [{key: group[key] for key in keys} for group in plain.param_groups]
    return MasterAdamW(groups, copies)
