"""Routed experts by two grouped GEMMs, with everything the host need not know left on the device.

Rows are put in the order of their experts by an index, and taken back by its inverse: both
directions of both are gathers, so that no sum depends on the order of atomic additions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class _ToExperts(torch.autograd.Function):  # type: ignore[misc]
    """rows[i] = hidden[order[i] // k]; its gradient adds up the k rows of each token."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, order: torch.Tensor, inverse: torch.Tensor, k: int
    ) -> torch.Tensor:
        ctx.save_for_backward(inverse)
        ctx.k = k
        return hidden[order // k]

    @staticmethod
    def backward(ctx: Any, above: torch.Tensor) -> tuple[Any, ...]:
        (inverse,) = ctx.saved_tensors
        rows = above[inverse].view(-1, ctx.k, above.shape[-1])
        return rows.sum(dim=1, dtype=torch.float32).to(above.dtype), None, None, None


class _FromExperts(torch.autograd.Function):  # type: ignore[misc]
    """out[t] = sum over j of weights[t, j] * rows[inverse[t * k + j]]."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        weights: torch.Tensor,
        order: torch.Tensor,
        inverse: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(rows, weights, order, inverse)
        tokens, k = weights.shape
        pairs = rows[inverse].view(tokens, k, -1) * weights.unsqueeze(-1)
        return pairs.sum(dim=1, dtype=torch.float32).to(rows.dtype)

    @staticmethod
    def backward(ctx: Any, above: torch.Tensor) -> tuple[Any, ...]:
        rows, weights, order, inverse = ctx.saved_tensors
        tokens, k = weights.shape
        arriving = above[order // k]
        d_rows = (arriving * weights.reshape(-1)[order].unsqueeze(-1)).to(rows.dtype)
        products = (rows.float() * arriving.float()).sum(dim=-1)
        d_weights = products[inverse].view(tokens, k).to(weights.dtype)
        return d_rows, d_weights, None, None


def grouped_mm(rows: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Rows of group e times weight[e].T. weight [E, out, in]; offsets: ends of groups, int32."""
    function: Any = getattr(nn.functional, "grouped_mm", None) or torch._grouped_mm
    product: torch.Tensor = function(rows, weight.transpose(-2, -1), offs=offsets)
    return product


def is_plain_gated(module: Any) -> bool:
    """Whether a stock experts module is gate, up and down without bias, weights [E, out, in]."""
    return (
        isinstance(getattr(module, "gate_up_proj", None), nn.Parameter)
        and isinstance(getattr(module, "down_proj", None), nn.Parameter)
        and {n for n, _ in module.named_parameters()} == {"gate_up_proj", "down_proj"}
        and getattr(module, "has_gate", True)
        and not getattr(module, "has_bias", False)
        and not getattr(module, "is_transposed", False)
        and callable(getattr(module, "act_fn", None))
        and hasattr(module, "num_experts")
    )


def forward_of(module: Any) -> Any:
    """A forward with the signature and the result of the stock one of a plain gated module."""
    gate_of = getattr(module, "_apply_gate", None)

    def gated(projected: torch.Tensor) -> Any:
        if gate_of is not None:
            return gate_of(projected)
        gate, up = projected.chunk(2, dim=-1)
        return module.act_fn(gate) * up

    def forward(
        hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        k = top_k_index.shape[-1]
        chosen = top_k_index.reshape(-1)
        order = torch.argsort(chosen, stable=True)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(order.shape[0], device=order.device)
        numbers = torch.arange(module.num_experts, device=chosen.device)
        counts = (chosen[:, None] == numbers[None, :]).sum(dim=0)
        offsets = counts.cumsum(0).to(torch.int32)
        rows = _ToExperts.apply(hidden_states, order, inverse, k)
        hidden = gated(grouped_mm(rows, module.gate_up_proj, offsets))
        results = grouped_mm(hidden, module.down_proj, offsets)
        combined: torch.Tensor = _FromExperts.apply(results, top_k_weights, order, inverse)
        return combined.to(hidden_states.dtype)

    return forward


def install(model: nn.Module) -> list[str]:
    """Give every plain gated experts module of a model the fast forward; returns their names.

    Call before experts are divided over ranks. Modules of another form keep the stock forward.
    """
    if not (hasattr(nn.functional, "grouped_mm") or hasattr(torch, "_grouped_mm")):
        return []
    found = []
    for name, module in model.named_modules():
        if is_plain_gated(module):
            stock: Any = module
            stock.forward = forward_of(module)
            found.append(name)
    return found
