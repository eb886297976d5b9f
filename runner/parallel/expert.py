"""Expert parallel for stock modules with fused expert tensors [experts, ...].

Each rank of an ep group keeps a contiguous block of experts. Tokens travel to the owner of the
expert they chose, the *stock* forward of the family runs there on local expert numbers, and the
results travel back, where the router's weights are applied. No mathematics of a family is
repeated here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


class _Exchange(torch.autograd.Function):  # type: ignore[misc]
    """All-to-all of rows; its gradient is the all-to-all with the splits swapped."""

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, send: list[int], receive: list[int], group: Any
    ) -> torch.Tensor:
        ctx.splits, ctx.group = (send, receive), group
        return _all_to_all(rows, send, receive, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        send, receive = ctx.splits
        return _all_to_all(gradient, receive, send, ctx.group), None, None, None


def _all_to_all(
    rows: torch.Tensor, send: list[int], receive: list[int], group: Any
) -> torch.Tensor:
    received = rows.new_empty((sum(receive), *rows.shape[1:]))
    dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
    return received


def divide_experts(module: nn.Module, name: str, ep_size: int) -> None:
    """Replace the meta parameters [E, ...] of a stock experts module by [E / ep_size, ...].

    Raises UsageError for a module without fused experts and for an indivisible count.
    """
    n_experts = int(getattr(module, "num_experts", 0))
    parameters = dict(module.named_parameters(recurse=False))
    if not n_experts or not parameters or any(p.shape[0] != n_experts for p in parameters.values()):
        raise UsageError(
            f"{name} ({type(module).__name__}) does not hold fused expert tensors",
            where="parallel.ep_modules",
            expected="a module with num_experts and parameters [num_experts, ...]",
            hint="expert parallel needs transformers 5; set ep_size to 1 with an earlier one",
        )
    if n_experts % ep_size:
        raise UsageError(
            f"{n_experts} experts cannot be divided over ep_size {ep_size}",
            where="parallel.ep_size",
            expected=f"a divisor of {n_experts}",
        )
    local = n_experts // ep_size
    for key, parameter in parameters.items():
        block = torch.empty(
            (local, *parameter.shape[1:]), dtype=parameter.dtype, device=parameter.device
        )
        setattr(module, key, nn.Parameter(block))
    module.num_experts = local


def dispatch_tokens(module: Any, group: Any) -> None:
    """Give a module treated by `divide_experts` a forward that exchanges tokens over `group`."""
    stock: Callable[..., torch.Tensor] = module.forward
    ep_size = dist.get_world_size(group)

    def forward(
        hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        n_tokens, k = top_k_index.shape
        chosen = top_k_index.reshape(-1)
        order = torch.argsort(chosen, stable=True)
        send, receive, arriving = _splits(chosen, module.num_experts * ep_size, ep_size, group)
        rows = _Exchange.apply(hidden_states[order // k], send, receive, group)
        results = _run_local(stock, rows, _local_ids(arriving))
        back = _Exchange.apply(results, receive, send, group)
        # order[i] is the (token, choice) pair of row i; its inverse puts the rows back.
        pairs = back[torch.argsort(order)].view(n_tokens, k, -1)
        return (pairs * top_k_weights.unsqueeze(-1)).sum(dim=1).to(hidden_states.dtype)

    module.forward = forward


def _splits(
    chosen: torch.Tensor, n_experts: int, ep_size: int, group: Any
) -> tuple[list[int], list[int], torch.Tensor]:
    """(rows to send to each rank, rows received from each, received [ep_size, local experts])."""
    leaving = torch.bincount(chosen, minlength=n_experts)
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving, group=group)
    arriving = arriving.view(ep_size, -1)
    totals = torch.stack((leaving.view(ep_size, -1).sum(1), arriving.sum(1))).tolist()
    return totals[0], totals[1], arriving


def _local_ids(arriving: torch.Tensor) -> torch.Tensor:
    """The local expert number of every received row: they come by source rank, then expert."""
    ep_size, n_local = arriving.shape
    numbers = torch.arange(n_local, device=arriving.device).repeat(ep_size)
    return numbers.repeat_interleave(arriving.flatten())


def _run_local(
    stock: Callable[..., torch.Tensor], rows: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    n_rows = rows.shape[0]
    if n_rows == 0:
        # A rank that receives nothing still needs gradients (of zero): otherwise it would skip
        # the reduction that the other ranks of its FSDP group wait in.
        rows = torch.cat((rows, rows.new_zeros((1, rows.shape[1]))))
        ids = ids.new_zeros(1)
    weights = torch.ones((rows.shape[0], 1), dtype=rows.dtype, device=rows.device)
    return stock(rows, ids[:, None], weights)[:n_rows]
