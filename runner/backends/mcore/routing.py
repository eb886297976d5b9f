"""Observes Megatron's routers: top-k sets, how near they were to others, the auxiliary loss.

A forward hook reads what `TopKRouter` decided; it changes nothing. Megatron numbers the tokens
of a micro-batch position first ([S, B] flattened); here they are in sample order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from megatron.core.tensor_parallel.random import is_checkpointing
from megatron.core.transformer.moe.moe_utils import (
    clear_aux_losses_tracker,
    compute_routing_scores_for_aux_loss,
    get_moe_layer_wise_logging_tracker,
    switch_load_balancing_loss_func,
)
from megatron.core.transformer.moe.router import TopKRouter

from runner.backends.mcore import parallel
from runner.backends.mcore.pieces import GroupChoice
from runner.evidence import topk_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn


class Taken(NamedTuple):
    """layers: of the whole model, ascending; ids: int16 [layers, tokens, k]; gap: float32
    [layers, tokens]; tokens of the global batch in sample order."""

    layers: list[int]
    ids: NDArray[Any]
    gap: NDArray[Any]


class RouterObserver:
    """Collects the decisions of every router since the last `take`.

    layers: this rank's decoder layers (from 0) that have a router.
    """

    def __init__(self, models: list[nn.Module]) -> None:
        found = [m for model in models for m in model.modules() if isinstance(m, TopKRouter)]
        self.layers = [router.layer_number - 1 for router in found]
        self._ids: dict[int, list[Tensor]] = {layer: [] for layer in self.layers}
        self._gap: dict[int, list[Tensor]] = {layer: [] for layer in self.layers}
        self._unweighted = torch.zeros(())
        for router in found:
            router.register_forward_hook(self._observe)

    def _observe(self, router: TopKRouter, args: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        if is_checkpointing() and torch.is_grad_enabled():
            return  # the same forward again, for the backward pass
        with torch.no_grad():
            # The router's own projection again: its logits are not among its outputs.
            logits = router.gating(args[0])
            positions, samples, experts = logits.shape
            logits = logits.view(-1, experts)
            selected = output[1].nonzero()[:, 1].view(-1, router.topk)
            ids, gap = _choice(router, logits, selected)
            layer = router.layer_number - 1
            ids = ids.view(positions, samples, -1).transpose(0, 1)
            self._ids[layer].append(ids.reshape(-1, router.topk))
            self._gap[layer].append(gap.view(positions, samples).t().reshape(-1))
            if not router.is_aux_loss_enabled():
                self._unweighted = self._unweighted + _auxiliary_loss(router, logits)

    def take(self, samples_per_rank: int | None = None) -> Taken:
        """What all ranks' routers decided since the last call (collective).

        Several micro-batches are in their order, hence in sample order. samples_per_rank: keep
        the first so many tokens of each data-parallel rank, None for all.
        """
        mine = {
            layer: (
                torch.cat(self._ids[layer])[:samples_per_rank].cpu().numpy(),
                torch.cat(self._gap[layer])[:samples_per_rank].cpu().numpy(),
            )
            for layer in self.layers
        }
        for seen in (*self._ids.values(), *self._gap.values()):
            seen.clear()
        speaks = parallel.first_of_tensor_parallel()
        found = parallel.everyone((parallel.data_rank()[0], mine if speaks else {}))
        by_layer: dict[int, dict[int, tuple[NDArray[Any], NDArray[Any]]]] = {}
        for rank, part in found:
            for layer, decided in part.items():
                by_layer.setdefault(layer, {})[rank] = decided
        layers = sorted(by_layer)
        parts = [[by_layer[layer][rank] for rank in sorted(by_layer[layer])] for layer in layers]
        return Taken(
            layers,
            np.stack([np.concatenate([ids for ids, _ in part]) for part in parts]),
            np.stack([np.concatenate([gap for _, gap in part]) for part in parts]),
        )

    def take_auxiliary_loss(self, micro_batches: int) -> float:
        """Sum over layers of the auxiliary loss before its coefficient, mean over the
        micro-batches of all data-parallel ranks (collective).

        From Megatron's own tracker. It tracks nothing at coefficient 0: then its formula,
        evaluated by its functions.
        """
        tracked = get_moe_layer_wise_logging_tracker().get("load_balancing_loss")
        total = float(self._unweighted)
        if tracked is not None:
            total += float(tracked["values"].sum())
        clear_aux_losses_tracker()
        self._unweighted = torch.zeros(())
        speaks = parallel.first_of_tensor_parallel()
        whole = sum(parallel.everyone(total if speaks else 0.0))
        return whole / (micro_batches * parallel.data_rank()[1])


def _choice(router: TopKRouter, logits: Tensor, selected: Tensor) -> tuple[Tensor, Tensor]:
    """(ids, gap) as `topk_sets` has them, by what this router chooses by."""
    scores = logits.float().sigmoid()
    if router.score_function == "softmax":
        scores = logits.softmax(-1, dtype=torch.float32)
    if router.expert_bias is not None:
        scores = scores + router.expert_bias
    limit = router.router_replay
    if not isinstance(limit, GroupChoice):
        return topk_sets(scores, router.topk, selected)
    groups, top = router.config.moe_router_num_groups, router.config.moe_router_group_topk
    limited = limit.limited(scores, groups, top)
    # Scores lie above 0: an expert outside the chosen groups is as far away as can be.
    ids, gap = topk_sets(limited.masked_fill(limited.isinf(), 0.0), router.topk, selected)
    return ids, torch.minimum(gap, topk_sets(limit.scores(scores, groups), top)[1])


def _auxiliary_loss(router: TopKRouter, logits: Tensor) -> Tensor:
    """Megatron's auxiliary loss of one layer with coefficient 1."""
    chosen, scores = compute_routing_scores_for_aux_loss(logits, router.topk, router.score_function)
    return switch_load_balancing_loss_func(
        probs=scores,
        tokens_per_expert=chosen.sum(dim=0),
        total_num_tokens=logits.shape[0],
        topk=router.topk,
        num_experts=logits.shape[1],
        moe_aux_loss_coeff=1.0,
    )
