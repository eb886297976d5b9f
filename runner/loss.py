"""The loss of the global batch as a sum over ranks.

Each rank computes its summand; gradients are added up over ranks and divided by nothing, so the
gradient is that of one process holding the whole global batch:

    loss = (1 / N) sum over supervised labels of cross-entropy  +  coefficient * aux

N: supervised labels of the global batch. The auxiliary loss balances the experts:

    megatron  aux = sum over layers of  E / (k T^2)  sum_e n_e P_e
    pooled    aux = E / (L T)^2  sum_e (sum over layers of n_e) (sum over layers of P_e)

E experts, k chosen per token, L layers, T tokens of the global batch; n_e tokens that chose
expert e, P_e sum of its probabilities. n_e is a count and has no gradient, P_e is a sum over
tokens: with n_e of the global batch known, each rank's tokens contribute a summand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.nn import functional

from certify.errors import UsageError

if TYPE_CHECKING:
    from runner.routing import Routed

FORMULAS = ("megatron", "pooled")


def cross_entropy_sum(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Sum of the cross-entropy over labels whose mask is 1, in nats, float32.

    logits [samples, positions, vocabulary]; labels and mask [samples, positions].
    """
    losses = functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), reduction="none"
    )
    return (losses * mask.flatten()).sum()


def expert_counts(routed: list[Routed], dtype: torch.dtype) -> torch.Tensor:
    """n_e of this rank's tokens, [layers, experts]."""
    return torch.stack([_counts(r.ids.flatten(), r.logits.shape[-1]) for r in routed]).to(dtype)


def _counts(ids: torch.Tensor, n_experts: int) -> torch.Tensor:
    if ids.device.type == "cpu":
        return torch.bincount(ids, minlength=n_experts)
    # A bincount waits for the device to learn the largest id; this does not.
    numbers = torch.arange(n_experts, device=ids.device)
    return (ids[:, None] == numbers[None, :]).sum(dim=0)


def sum_over_ranks(values: torch.Tensor) -> torch.Tensor:
    """The same tensor, added up over all ranks in place."""
    dist.all_reduce(values)
    return values


def aux_weights(counts: torch.Tensor, k: int, tokens: int, formula: str) -> torch.Tensor:
    """What each P_e is multiplied with, [layers, experts]. counts: global n_e; tokens: T.

    Raises UsageError for an unknown formula.
    """
    n_layers, n_experts = counts.shape
    if formula == "megatron":
        return counts * (n_experts / (k * float(tokens) ** 2))
    if formula == "pooled":
        pooled = counts.sum(dim=0, keepdim=True).expand_as(counts)
        return pooled * (n_experts / float(n_layers * tokens) ** 2)
    raise UsageError(
        f"unknown auxiliary loss {formula!r}",
        where="training.aux_loss_formula",
        expected=", ".join(FORMULAS),
    )


def aux_summand(routed: list[Routed], weights: torch.Tensor) -> torch.Tensor:
    """This rank's part of the auxiliary loss before its coefficient, float32 with gradient."""
    sums = torch.stack([r.probabilities().sum(dim=0) for r in routed])
    return (sums * weights.to(sums.dtype)).sum()
