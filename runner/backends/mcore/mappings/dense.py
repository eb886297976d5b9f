"""Dense decoders. Defaults are those of the configuration classes of transformers 5.24."""

from __future__ import annotations

from runner.backends.mcore.mappings.rules import (
    ATTENTION,
    DENSE_MLP,
    ENDS,
    HEADS,
    LAYER,
    MCORE_ATTENTION,
    MCORE_LAYER,
    MCORE_MLP,
    MLP,
    NORMS,
    OUT,
    Family,
    Rule,
    of,
)

_PLAIN = (*ENDS, *NORMS, *HEADS, *DENSE_MLP)
_LLAMA = {"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu"}
# Gate and up projection are published as one matrix.
_ONE_MLP = (
    Rule(MCORE_MLP + "linear_fc1.weight", of(MLP, ("gate_up_proj",)), "halves"),
    Rule(MCORE_MLP + "linear_fc2.weight", of(MLP, ("down_proj",))),
)
_FOUR_NORMS = (
    Rule(MCORE_LAYER + "input_layernorm.weight", (LAYER + "input_layernorm.weight",)),
    Rule(
        MCORE_ATTENTION + "linear_proj.post_norm.weight",
        (LAYER + "post_attention_layernorm.weight",),
    ),
    Rule(MCORE_LAYER + "pre_mlp_layernorm.weight", (LAYER + "pre_feedforward_layernorm.weight",)),
    Rule(
        MCORE_MLP + "linear_fc2.post_norm.weight",
        (LAYER + "post_feedforward_layernorm.weight",),
    ),
)
_GLM4_NORMS = (
    *NORMS,
    Rule(
        MCORE_ATTENTION + "linear_proj.post_norm.weight",
        (LAYER + "post_self_attn_layernorm.weight",),
    ),
    Rule(MCORE_MLP + "linear_fc2.post_norm.weight", (LAYER + "post_mlp_layernorm.weight",)),
)
_GLM = {
    "rms_norm_eps": 1.5625e-07,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "partial_rotary_factor": 0.5,
    "head_dim": 128,
}
_GEMMA = {"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "head_dim": 256}
_GELU = ("gelu_pytorch_tanh",)

FAMILIES = {
    "llama": Family("dense", _PLAIN, {**_LLAMA}),
    "mistral": Family("dense", _PLAIN, {**_LLAMA, "sliding_window": 4096}),
    "qwen2": Family("dense", _PLAIN, {**_LLAMA}, qkv_bias=True),
    "qwen3": Family("dense", _PLAIN, {**_LLAMA, "head_dim": 128}, qk_norm="head"),
    "seed_oss": Family(
        "dense",
        _PLAIN,
        {**_LLAMA, "head_dim": 128, "attention_bias": True},
        qkv_bias="attention_bias",
    ),
    "internlm3": Family("dense", _PLAIN, {**_LLAMA}),
    "phi3": Family(
        "dense",
        (
            *ENDS,
            *NORMS,
            Rule(MCORE_ATTENTION + "linear_qkv.weight", of(ATTENTION, ("qkv_proj",)), "qkv-rows"),
            *OUT,
            *_ONE_MLP,
        ),
        {**_LLAMA, "rms_norm_eps": 1e-5},
    ),
    "glm": Family(
        "dense",
        (*ENDS, *NORMS, *HEADS, *_ONE_MLP),
        _GLM,
        qkv_bias="attention_bias",
        interleaved=True,
    ),
    "glm4": Family(
        "dense",
        (*ENDS, *_GLM4_NORMS, *HEADS, *_ONE_MLP),
        _GLM,
        qkv_bias="attention_bias",
        interleaved=True,
        post_norms=True,
    ),
    "gemma": Family(
        "dense",
        _PLAIN,
        {**_GEMMA, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
        zero_centred=True,
        scaled_embedding=True,
        activations=_GELU,
    ),
    "gemma2": Family(
        "dense",
        (*ENDS, *_FOUR_NORMS, *HEADS, *DENSE_MLP),
        {
            **_GEMMA,
            "hidden_activation": "gelu_pytorch_tanh",
            "tie_word_embeddings": True,
            "sliding_window": 4096,
            "query_pre_attn_scalar": 256,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "layer_types": "alternating",
        },
        zero_centred=True,
        scaled_embedding=True,
        post_norms=True,
        activations=_GELU,
    ),
}
