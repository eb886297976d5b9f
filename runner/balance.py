"""Balancing experts without a loss: after each step the bias of a router's choice moves.

Published for DeepSeek-V3 (arXiv:2412.19437, 2.1.2) and done by Megatron-LM: an expert that more
tokens than the average chose becomes less attractive by a fixed rate, and the other way round.
The bias takes part in the choice only, and has no gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runner import loss

if TYPE_CHECKING:
    from runner.routing import Routed


def update_biases(
    biases: list[torch.Tensor | None], routed: list[list[Routed]], rate: float
) -> None:
    """Move every bias by `rate` towards balance, in place (collective).

    routed: this rank's micro-batches, layers in the order of biases. The counts are those of the
    global batch, so that the biases stay equal on every rank.
    """
    if rate == 0 or not routed or not any(bias is not None for bias in biases):
        return
    counts = sum(loss.expert_counts(one, torch.float32) for one in routed)
    assert isinstance(counts, torch.Tensor)
    counts = loss.sum_over_ranks(counts)
    with torch.no_grad():
        for bias, count in zip(biases, counts, strict=True):
            if bias is not None:
                bias += rate * torch.sign(count.mean() - count).to(bias.dtype)
