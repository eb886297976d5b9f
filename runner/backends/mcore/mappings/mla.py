"""Decoders with multi-latent attention."""

from __future__ import annotations

from runner.backends.mcore.mappings.rules import (
    ATTENTION,
    DENSE_MLP,
    ENDS,
    MCORE_ATTENTION,
    MLP,
    NORMS,
    OUT,
    Family,
    Rule,
    choice_bias,
    experts,
    of,
    shared,
)

_LATENT = (
    Rule(MCORE_ATTENTION + "linear_q_proj.weight", of(ATTENTION, ("q_proj",)), when="full_queries"),
    Rule(
        MCORE_ATTENTION + "linear_q_down_proj.weight",
        of(ATTENTION, ("q_a_proj",)),
        when="low_rank_queries",
    ),
    Rule(
        MCORE_ATTENTION + "q_layernorm.weight",
        of(ATTENTION, ("q_a_layernorm",)),
        when="low_rank_queries",
    ),
    Rule(
        MCORE_ATTENTION + "linear_q_up_proj.weight",
        of(ATTENTION, ("q_b_proj",)),
        when="low_rank_queries",
    ),
    Rule(MCORE_ATTENTION + "linear_kv_down_proj.weight", of(ATTENTION, ("kv_a_proj_with_mqa",))),
    Rule(MCORE_ATTENTION + "kv_layernorm.weight", of(ATTENTION, ("kv_a_layernorm",))),
    Rule(MCORE_ATTENTION + "linear_kv_up_proj.weight", of(ATTENTION, ("kv_b_proj",))),
    *OUT,
)
_DEEPSEEK = (
    *ENDS,
    *NORMS,
    *_LATENT,
    *DENSE_MLP,
    *experts(MLP, "gate_proj", "up_proj", "down_proj"),
    *shared(MLP + "shared_experts."),
)
_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "n_shared_experts": 1,
    "routed_scaling_factor": 1.0,
}

FAMILIES = {
    "deepseek_v2": Family(
        "mla",
        _DEEPSEEK,
        {**_DEFAULTS, "norm_topk_prob": False, "topk_method": "greedy", "first_k_dense_replace": 0},
        moe=True,
        group_best=1,
        latent=True,
    ),
    "deepseek_v3": Family(
        "mla",
        (*_DEEPSEEK, *choice_bias(MLP + "gate.e_score_correction_bias")),
        {
            **_DEFAULTS,
            "norm_topk_prob": True,
            "first_k_dense_replace": 3,
            "routed_scaling_factor": 2.5,
        },
        moe=True,
        scores="sigmoid",
        latent=True,
    ),
}
