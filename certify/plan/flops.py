"""FLOPs per trained token, formula ``causal-active-v1`` (docs/criteria.md).

    6 x N_active  +  6 x sum over attention layers of  H x (d_qk + d_v) x S_eff

6: two FLOPs (multiply, add) a weight in the forward pass, twice that in the backward pass.
N_active: the matrices that a token goes through: attention, router, the chosen experts, shared
experts, dense MLPs, head; no input embedding, no norms, no recomputation.
S_eff: keys that a token looks at on average. Causal, one sample of S tokens: (1 + 2 + ... + S) / S
= (S + 1) / 2; with a window w below S: w - w (w - 1) / (2 S).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certify.plan.architecture import Architecture, Layer

FORMULA = "causal-active-v1"
_FORWARD_AND_BACKWARD = 6


def seen_keys(seq_length: int, window: int | None = None) -> float:
    """S_eff, the mean number of keys of a causal token; window: keys seen at most."""
    if window is None or window >= seq_length:
        return (seq_length + 1) / 2
    return window - window * (window - 1) / (2 * seq_length)


def active_of(layer: Layer) -> float:
    """Matrix elements of a layer that a token goes through."""
    total = 0.0
    for weight in layer.weights:
        if not weight.counts:
            continue
        share = 1.0
        if weight.part == "expert":
            assert layer.moe is not None
            share = layer.moe.active / layer.moe.experts
        total += weight.numel * share
    return total


def active_parameters(model: Architecture) -> float:
    """N_active, without layers of multi-token prediction."""
    head = sum(w.numel for w in model.outer if w.counts)
    return sum(map(active_of, model.layers)) + head


def _scores(layer: Layer, seq_length: int) -> float:
    return sum(m.score_width * seen_keys(seq_length, m.window) for m in layer.mixers)


def flops_per_token(model: Architecture, seq_length: int) -> float:
    """FLOPs a token of a training step, forward and backward, by ``causal-active-v1``."""
    scores = sum(_scores(layer, seq_length) for layer in model.layers)
    return _FORWARD_AND_BACKWARD * (active_parameters(model) + scores)


def prediction_flops_per_token(model: Architecture, seq_length: int) -> float:
    """What layers of multi-token prediction add: their own matrices and the head once more each.

    Outside the formula, so outside MFU; part of the time of a step.
    """
    head = sum(w.numel for w in model.outer if w.counts)
    each = [active_of(layer) + head + _scores(layer, seq_length) for layer in model.mtp]
    return _FORWARD_AND_BACKWARD * sum(each)
