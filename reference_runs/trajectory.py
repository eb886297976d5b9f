"""A whole training in float64 on one process: what every reference should have come to.

The oracle's forward pass, reverse-mode differentiation, clipping by the global norm and AdamW with
decoupled decay, each as published and nothing fast. No code of a reference runs here, so that the
distance of a float32 trajectory from this one is that reference's own error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy, one_hot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from certify.runspec import TrainingSpec
    from reference_runs.oracle import Oracle, Output


@dataclass
class Trajectory:
    """Per step: losses: mean cross-entropy over supervised labels, nats, without the auxiliary
    loss; norms: global gradient norm before clipping; topk: layer -> int16 [B * S, k], ascending;
    gaps: layer -> float64 [B * S], how far the choice was from another. after_first: the
    parameters after step 1, by published name."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    topk: list[dict[int, Tensor]] = field(default_factory=list)
    gaps: list[dict[int, Tensor]] = field(default_factory=list)
    after_first: dict[str, Tensor] = field(default_factory=dict)


def balance(output: Output) -> Tensor:
    """Sum over layers of E / (k T^2) * sum_e n_e P_e: T tokens, n_e of which chose expert e, whose
    probabilities sum to P_e. Source: Switch Transformer (arXiv 2101.03961), as Megatron sums it."""
    total = torch.zeros((), dtype=torch.float64)
    for layer, probabilities in output.router.items():
        tokens, experts = probabilities.shape
        chosen = output.topk[layer].long()
        counts = one_hot(chosen, experts).sum((0, 1))
        scale = experts / (chosen.shape[1] * tokens**2)
        total = total + scale * (counts * probabilities.sum(0)).sum()
    return total


def train(
    oracle: Oracle,
    training: TrainingSpec,
    batch: Callable[[int], tuple[Tensor, Tensor]],
    rates: Sequence[float],
) -> Trajectory:
    """Train one step for every rate; the oracle's weights move.

    batch: (int64 [B, S + 1] tokens, bool [B, S] supervised labels) of global batch k, from 0.
    Decay applies to parameters of two or more dimensions, as `TrainingSpec` says.
    """
    found = Trajectory()
    parameters = oracle.weights
    for parameter in parameters.values():
        parameter.requires_grad_(True)
    first = {name: torch.zeros_like(p) for name, p in parameters.items()}
    second = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for step, rate in enumerate(rates, start=1):
        tokens, mask = batch(step - 1)
        output = oracle.differentiable(tokens[:, :-1])
        labels = tokens[:, 1:].masked_fill(~mask, -100)
        loss = cross_entropy(output.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        total = loss + training.aux_loss_coef * balance(output)
        names = list(parameters)
        gradients = dict(
            zip(names, torch.autograd.grad(total, [parameters[n] for n in names]), strict=True)
        )
        norm = torch.sqrt(sum((g.square().sum() for g in gradients.values()), torch.zeros(())))
        # 1e-6 as in torch's clip_grad_norm_ and in Megatron's.
        scale = min(1.0, training.clip_grad / (float(norm) + 1e-6))
        with torch.no_grad():
            for name, parameter in parameters.items():
                gradient = gradients[name] * scale
                first[name].lerp_(gradient, 1 - training.beta1)
                second[name].lerp_(gradient.square(), 1 - training.beta2)
                if parameter.dim() > 1:
                    parameter.mul_(1 - rate * training.weight_decay)
                mean = first[name] / (1 - training.beta1**step)
                spread = (second[name] / (1 - training.beta2**step)).sqrt()
                parameter.sub_(rate * mean / (spread + training.eps))
            if step == 1:
                found.after_first = {name: p.clone() for name, p in parameters.items()}
        found.losses.append(float(loss))
        found.norms.append(float(norm))
        found.topk.append(output.topk)
        found.gaps.append({layer: gap.detach() for layer, gap in output.topk_gap.items()})
    return found
