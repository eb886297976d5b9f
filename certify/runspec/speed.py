"""Switches of the fast path: each names one part, and each can be turned off alone."""

from __future__ import annotations

from dataclasses import dataclass

STATES = ("auto", "on", "off")


@dataclass(frozen=True)
class SpeedSpec:
    """Each switch is ``auto``, ``on`` or ``off``; ``auto`` is on for a cuda device unless the run
    is deterministic, and off elsewhere (see `runner.fast.switches`).

    chunked_loss: cross-entropy and its gradient in one pass over chunks of positions;
    compile_blocks: repeated blocks through torch.compile; attention_kernels: prefer the device's
    best kernel behind sdpa; fused_experts: permutation and grouped GEMMs without host
    synchronisation; master_weights: param_dtype copies in the model, the dtype of the model
    in the optimizer, both written in one pass; chunk_tokens: positions of one chunk of the loss.
    """

    chunked_loss: str = "auto"
    compile_blocks: str = "auto"
    attention_kernels: str = "auto"
    fused_experts: str = "auto"
    master_weights: str = "auto"
    chunk_tokens: int = 8192
