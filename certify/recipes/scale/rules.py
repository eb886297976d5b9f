"""The scaling rules of model configurations: which key, what it becomes, and why.

Each rule is a line of `RULES`; a rule acts where its key is present. In order: a later rule may
read what an earlier one has set. The numbers come from a file of ``matrices/scales``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.recipes.scale import formulas as f
from certify.recipes.scale.families import EXPERT_GROUPS, EXPERTS, HEADS, KV_HEADS, LAYERS, TOP_K

if TYPE_CHECKING:
    from collections.abc import Callable

    from certify.recipes.scale.formulas import Config


@dataclass(frozen=True)
class Rule:
    """One line: the key, its new value, and the reason in words."""

    key: str
    scaled: Callable[[Config, Config, Config, str], Any]
    text: str


_RATIO = "ratio to hidden as published"
RULES = (
    Rule("hidden_size", f.fixed("hidden_size"), "fixed width"),
    *(Rule(key, f.layers, "few layers, more than two, every kind of layer") for key in LAYERS),
    *(Rule(key, f.heads, "heads x head_dim / hidden as published") for key in HEADS),
    *(
        Rule(key, f.kv_heads, "grouped-query stays grouped, multi-head stays so")
        for key in KV_HEADS
    ),
    Rule("head_dim", f.head_dim, "fixed; latent attention: that of the part that turns"),
    Rule("qk_rope_head_dim", f.rope_dim, "fixed"),
    Rule("qk_nope_head_dim", f.fixed("qk_nope_head_dim"), "fixed"),
    Rule(
        "qk_head_dim",
        lambda p, s, to, key: s["qk_nope_head_dim"] + s["qk_rope_head_dim"],
        "the sum of its two parts",
    ),
    Rule("v_head_dim", f.value_dim, "ratio to the query's as published"),
    Rule("q_lora_rank", f.fixed("q_lora_rank"), "fixed, above the rank of keys and values"),
    Rule("kv_lora_rank", f.fixed("kv_lora_rank"), "fixed"),
    Rule("o_lora_rank", f.fixed("kv_lora_rank"), "fixed"),
    Rule("o_groups", f.fixed("num_key_value_heads"), "more than one group"),
    Rule("attention_other_setting", f.other_heads, "ratio to the other layers as published"),
    Rule("rotary_dim", f.of_head_dim, "share of the head as published"),
    Rule("query_pre_attn_scalar", f.of_head_dim, "ratio to the head as published"),
    Rule("sliding_window", f.window, "inside the sequence, so that it acts"),
    Rule("rope_scaling", f.rotary, "kept; lists of factors as long as a head has frequencies"),
    Rule("rope_parameters", f.rotary, "kept; lists of factors as long as a head has frequencies"),
    Rule("index_n_heads", f.fixed("linear_heads"), "more than one head"),
    Rule("index_head_dim", f.fixed("head_dim"), "fixed"),
    Rule("index_topk", f.fixed("sliding_window"), "inside the sequence, so that it acts"),
    Rule("compress_rates", f.rates, "inside the sequence, so that it acts"),
    Rule("linear_num_key_heads", f.linear_heads, "more than one head"),
    Rule("linear_num_value_heads", f.linear_heads, "heads of values per head of keys as published"),
    Rule("linear_key_head_dim", f.fixed("head_dim"), "fixed"),
    Rule("linear_value_head_dim", f.fixed("head_dim"), "fixed"),
    Rule("linear_head_dim", f.fixed("head_dim"), "fixed"),
    Rule("linear_num_heads", f.fixed("latent_heads"), "more than one head"),
    Rule("state_size", f.fixed("head_dim"), "fixed"),
    Rule("num_heads", f.state_heads, "expand x hidden / head_dim"),
    Rule("n_groups", f.fixed("linear_heads"), "more than one group where there were"),
    Rule("chunk_size", f.fixed("sliding_window"), "several chunks in a sequence"),
    Rule("time_step_rank", f.of_hidden, _RATIO),
    Rule("dim_model_base", f.of_hidden, _RATIO),
    *(
        Rule(key, f.width, _RATIO)
        for key in (
            "intermediate_size",
            "moe_intermediate_size",
            "shared_expert_intermediate_size",
            "ffn_hidden_size",
            "expert_ffn_hidden_size",
            "share_expert_dim",
        )
    ),
    *(
        Rule(key, f.per_layer("num_experts"), "several experts on each expert-parallel rank")
        for key in EXPERTS
    ),
    *(
        Rule(key, f.per_layer("num_experts_per_tok"), "top-k stays above one where it was")
        for key in TOP_K
    ),
    *(Rule(key, f.groups, "two experts or more in each group") for key in EXPERT_GROUPS),
    Rule("topk_group", f.top_groups, "share of the groups as published"),
    Rule("zero_expert_num", f.zero_experts, "ratio to the routed experts as published"),
    *(
        Rule(key, f.nothing, "off: two sides would draw different random numbers")
        for key in (
            "attention_dropout",
            "hidden_dropout",
            "residual_dropout",
            "resid_pdrop",
            "embd_pdrop",
            "router_jitter_noise",
            "input_jitter_noise",
        )
    ),
    Rule(
        "num_nextn_predict_layers",
        f.nothing,
        "multi-token prediction is left out: the stock class has no such layers",
    ),
)
# After the depth is known: tables with one entry for each layer, then what follows from them.
LAST_RULES = (
    Rule("first_k_dense_replace", f.first_dense, "dense layers first, then experts"),
    Rule("moe_layers_enum", f.layer_numbers, "the layers that are left"),
    Rule(
        "max_window_layers",
        lambda p, s, to, key: min(p[key], 1) if p.get("use_sliding_window") else p[key],
        "layers without and with a window",
    ),
)

# Features that must survive as published; listed so that the page can say so.
KEPT = (
    "model_type",
    "architectures",
    "hidden_act",
    "hidden_activation",
    "rms_norm_eps",
    "layer_norm_epsilon",
    "rope_theta",
    "partial_rotary_factor",
    "rope_interleave",
    "attention_bias",
    "attention_out_bias",
    "qkv_bias",
    "mlp_bias",
    "lm_head_bias",
    "use_qk_norm",
    "use_sliding_window",
    "full_attention_interval",
    "linear_conv_kernel_dim",
    "conv_kernel",
    "expand",
    "tie_word_embeddings",
    "norm_topk_prob",
    "norm_expert_weight",
    "moe_router_scaling_factor",
    "use_head_wise_attn_gate",
    "moe_renormalize",
    "scoring_func",
    "topk_method",
    "routed_scaling_factor",
    "n_shared_experts",
    "num_shared_experts",
    "router_aux_loss_coef",
    "decoder_sparse_step",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "swiglu_alpha",
    "swiglu_limit",
    "hc_mult",
    "hc_sinkhorn_iters",
    "scale_emb",
    "scale_depth",
    "embedding_multiplier",
    "residual_multiplier",
    "attention_multiplier",
    "logits_scaling",
    "initializer_range",
)
# What a published file carries that says f.nothing about the mathematics of training.
DROPPED = ("quantization_config", "auto_map", "transformers_version", "use_cache")
