"""Decoders with routed experts and heads of their own keys and values (not latent)."""

from __future__ import annotations

from runner.backends.mcore.mappings.rules import (
    DENSE_MLP,
    ENDS,
    HEADS,
    LAYER,
    MCORE_MLP,
    MLP,
    NORMS,
    Family,
    Rule,
    choice_bias,
    experts,
    of,
    shared,
)

_LLAMA = {"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu"}
_ATTENTION = (*ENDS, *NORMS, *HEADS)
_QWEN = experts(MLP, "gate_proj", "up_proj", "down_proj")
_BLOCK = LAYER + "block_sparse_moe."
_W = experts(_BLOCK, "w1", "w3", "w2")

FAMILIES = {
    "qwen3_moe": Family(
        "moe",
        (*_ATTENTION, *DENSE_MLP, *_QWEN),
        {**_LLAMA, "norm_topk_prob": False},
        qk_norm="head",
        moe=True,
    ),
    "qwen2_moe": Family(
        "moe",
        (
            *_ATTENTION,
            *DENSE_MLP,
            *_QWEN,
            *shared(MLP + "shared_expert."),
            Rule(
                MCORE_MLP + "shared_experts.gate_weight",
                of(MLP, ("shared_expert_gate",)),
                when="shared",
            ),
        ),
        {**_LLAMA, "norm_topk_prob": False},
        qkv_bias=True,
        moe=True,
    ),
    "mixtral": Family(
        "moe",
        (*_ATTENTION, *_W),
        {**_LLAMA, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "norm_topk_prob": True},
        moe=True,
    ),
    "glm4_moe": Family(
        "moe",
        (
            *_ATTENTION,
            *DENSE_MLP,
            *_QWEN,
            *shared(MLP + "shared_experts."),
            *choice_bias(MLP + "gate.e_score_correction_bias"),
        ),
        {
            **_LLAMA,
            "rms_norm_eps": 1e-5,
            "partial_rotary_factor": 0.5,
            "head_dim": 128,
            "norm_topk_prob": True,
            "routed_scaling_factor": 1.0,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
        },
        qk_norm="use_qk_norm",
        qkv_bias="attention_bias",
        moe=True,
        scores="sigmoid",
    ),
    "minimax_m2": Family(
        "moe",
        (*_ATTENTION, *_W, *choice_bias(_BLOCK + "e_score_correction_bias")),
        {**_LLAMA, "rope_theta": 5e6, "norm_topk_prob": True},
        qk_norm="whole",
        moe=True,
        scores="sigmoid",
    ),
}
