"""Which model types scale down, what their configurations call things, and what they feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# The same quantity under the names that published configurations use for it.
LAYERS = ("num_hidden_layers", "num_layers", "n_layer")
HEADS = ("num_attention_heads", "n_head")
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k")
KV_HEADS = ("num_key_value_heads", "num_attention_groups")
EXPERT_GROUPS = ("n_group", "num_expert_group")

# Model types whose features the rules are known to keep (`features` before and after are equal;
# the tests hold every public configuration to that).
SCALABLE = (
    "bloom",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "ernie4_5",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "glm4",
    "glm4_moe",
    "glm_moe_dsa",
    "gpt_oss",
    "granite",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "internlm3",
    "llama",
    "longcat_flash",
    "mamba2",
    "minicpm3",
    "minimax_m2",
    "mistral",
    "mixtral",
    "olmo2",
    "phi3",
    "phimoe",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_5_moe_text",
    "qwen3_5_text",
    "qwen3_moe",
    "qwen3_next",
    "seed_oss",
    "step3p5",
)

# Model types whose routed experts cannot be divided over ranks, and why.
WITHOUT_EXPERT_PARALLEL = {
    "longcat_flash": "its router also chooses zero-computation experts, which hold no weights",
}


def found(config: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of several names that a configuration uses, or None."""
    return next((name for name in names if config.get(name) is not None), None)


def value(config: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The value under the first of several names, or None."""
    name = found(config, names)
    return None if name is None else config[name]


def is_moe(config: Mapping[str, Any]) -> bool:
    """Whether a configuration has routed experts."""
    experts = value(config, EXPERTS)
    return isinstance(experts, list) or (experts or 0) > 1


def rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rotary parameters under either of their published names; empty without any."""
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def partial_rotary(config: Mapping[str, Any]) -> float:
    """The share of a head that turns with the position."""
    nested = rope(config).get("partial_rotary_factor")
    share = config.get("partial_rotary_factor", nested)
    return 1.0 if share is None else float(share)


def features(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What an architecture does, in words that a page can list; must survive scaling."""
    heads, kv = value(config, HEADS) or 0, value(config, KV_HEADS) or 0
    kinds = set(config.get("layer_types") or ())
    blocks = set(config.get("mlp_layer_types") or ())
    groups = value(config, EXPERT_GROUPS) or 1
    latent = config.get("kv_lora_rank") is not None
    present = {
        "multi-query attention": kv == 1 and heads > 1,
        "grouped-query attention": not latent and 1 < kv < heads,
        "latent attention (MLA)": latent,
        "low-rank queries": config.get("q_lora_rank") is not None,
        "sliding window": bool(config.get("sliding_window"))
        and config.get("use_sliding_window", True) is not False,
        "layer types: " + ", ".join(sorted(kinds)): len(kinds) > 1,
        "linear attention": "linear_attention" in kinds
        or any(key.startswith("linear_") for key in config),
        "state space": config.get("state_size") is not None,
        "sparse indexer": config.get("index_topk") is not None,
        "compressed attention": config.get("compress_rates") is not None,
        "routed experts": is_moe(config),
        "shared experts": bool(
            value(config, ("n_shared_experts", "num_shared_experts", "share_expert_dim"))
            or config.get("shared_expert_intermediate_size")
        ),
        "zero-computation experts": bool(config.get("zero_expert_num")),
        "group-limited routing": groups > 1,
        "dense layers first": bool(config.get("first_k_dense_replace"))
        or "dense" in blocks
        or 0 not in config.get("moe_layers_enum", (0,)),
        "more heads within the window": bool(config.get("attention_other_setting")),
        "gated heads": bool(config.get("use_head_wise_attn_gate")),
        "hash-routed layers": "hash_moe" in blocks,
        "logit soft-capping": config.get("final_logit_softcapping") is not None,
        "tied embeddings": bool(config.get("tie_word_embeddings")),
        "partial rotary": partial_rotary(config) < 1.0 or config.get("rotary_dim") is not None,
        f"rotary scaling: {rope(config).get('rope_type') or rope(config).get('type')}": (
            rope(config).get("rope_type") or rope(config).get("type") or "default"
        )
        != "default",
    }
    return tuple(name for name, is_there in present.items() if is_there)
