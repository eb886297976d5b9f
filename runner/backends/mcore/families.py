"""What the supported decoder families ask of Megatron-Core, read from a Hugging Face config.

The families themselves are data (`mappings`). Standard library only; `config` turns a family and
its numbers into Megatron's own configuration.
"""

from __future__ import annotations

from typing import Any

from certify.errors import UsageError
from runner.backends.mcore.mappings import FAMILIES, NOT_MAPPED, Family

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
# Values that change the mathematics and that no family here uses: (key, accepted values).
_REFUSED_UNLESS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("attention_dropout", (0, 0.0, None)),
    ("use_sliding_window", (False, None)),
    ("mlp_bias", (False, None)),
    ("attention_out_bias", (False, None)),
    ("router_jitter_noise", (0, 0.0, None)),
    ("num_nextn_predict_layers", (0, None)),
)
# What Megatron's own rotary scaling of this kind is fixed to.
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def known(hf_config: dict[str, Any]) -> Family:
    """The family of a configuration, whatever its numbers. Raises UsageError without one."""
    name = hf_config.get("model_type")
    if name in FAMILIES:
        return FAMILIES[name]
    reason = f": {NOT_MAPPED[name]}" if name in NOT_MAPPED else ""
    raise UsageError(
        f"the mcore backend does not build model_type {name!r}{reason}",
        where="model.hf_config: model_type",
        expected="one of " + ", ".join(sorted(FAMILIES)),
    )


def family(hf_config: dict[str, Any]) -> Family:
    """The family of a configuration. Raises UsageError for one this backend does not map."""
    found = known(hf_config)
    for key, accepted in _REFUSED_UNLESS:
        if key in hf_config and hf_config[key] not in accepted:
            raise _refused(key, hf_config[key], " or ".join(map(repr, accepted)))
    for key in ("hidden_act", "hidden_activation"):
        if hf_config.get(key) is not None and found.runs:
            _require(key, hf_config[key], found.activations)
    if hf_config.get("attention_bias") and not found.qkv_bias:
        raise _refused("attention_bias", True, "False")
    if found.moe and found.scores == "sigmoid":
        _require("norm_topk_prob", value(hf_config, "norm_topk_prob"), (True,))
    if found.moe and found.group_best != 2:
        _require("topk_method", value(hf_config, "topk_method"), ("greedy", "group_limited_greedy"))
    if found.runs:
        rope(hf_config)
    return found


def require_runs(hf_config: dict[str, Any]) -> Family:
    """As `family`, for a model that is to be built. Raises UsageError where only the weights are
    mapped."""
    found = family(hf_config)
    if not found.runs:
        raise UsageError(
            f"the mcore backend maps {hf_config['model_type']!r} weights and does not run them",
            where="model.hf_config: model_type",
            expected="a family whose layers need no kernels of mamba-ssm",
        )
    return found


def value(hf_config: dict[str, Any], key: str) -> Any:
    """A value of the configuration, or what transformers puts where it is left out."""
    return hf_config[key] if key in hf_config else known(hf_config).defaults.get(key)


def rope(hf_config: dict[str, Any]) -> dict[str, Any]:
    """The rotary parameters under either of the names in use: rope_theta, rope_type, share (of a
    head that turns) and those of the type.

    Raises UsageError for a scaling that Megatron does not compute.
    """
    nested = hf_config.get("rope_parameters") or hf_config.get("rope_scaling") or {}
    kind = nested.get("rope_type") or nested.get("type") or "default"
    theta = nested.get("rope_theta", value(hf_config, "rope_theta"))
    if theta is None:
        raise UsageError(
            "the configuration has no base for the rotary embedding",
            where="model.hf_config",
            expected="rope_theta or rope_parameters.rope_theta",
        )
    allowed = ("default", "yarn") if known(hf_config).latent else ("default", "llama3", "linear")
    _require("rope_parameters.rope_type", kind, allowed)
    if kind == "llama3":
        for key, wanted in _LLAMA3.items():
            _require(f"rope_parameters.{key}", nested.get(key), (wanted,))
    share = nested.get("partial_rotary_factor", value(hf_config, "partial_rotary_factor"))
    if share is None and hf_config.get("rotary_dim"):
        share = hf_config["rotary_dim"] / head_dim(hf_config)
    share = 1.0 if share is None else float(share)
    return {**nested, "rope_theta": float(theta), "rope_type": kind, "share": share}


def rope_theta(hf_config: dict[str, Any]) -> float:
    """The base of the rotary embedding."""
    return float(rope(hf_config)["rope_theta"])


def head_dim(hf_config: dict[str, Any]) -> int:
    """Width of one attention head; of its values where keys and values differ."""
    if known(hf_config).latent:
        return int(hf_config["v_head_dim"])
    found = value(hf_config, "head_dim")
    return int(found or hf_config["hidden_size"] // hf_config["num_attention_heads"])


def query_groups(hf_config: dict[str, Any]) -> int:
    """Number of key and value heads."""
    heads = int(hf_config["num_attention_heads"])
    return heads if known(hf_config).latent else int(hf_config.get("num_key_value_heads") or heads)


def num_experts(hf_config: dict[str, Any]) -> int:
    """Number of routed experts of a layer, under any of the names in use; 0 for a dense model."""
    return next((int(hf_config[key]) for key in _EXPERTS if hf_config.get(key)), 0)


def expert_width(hf_config: dict[str, Any]) -> int:
    """Hidden width of one routed expert."""
    return int(hf_config.get("moe_intermediate_size") or hf_config["intermediate_size"])


def shared_width(hf_config: dict[str, Any]) -> int:
    """Hidden width of the expert that sees every token; 0 without one."""
    if not known(hf_config).moe:
        return 0
    if hf_config.get("shared_expert_intermediate_size"):
        return int(hf_config["shared_expert_intermediate_size"])
    return int(value(hf_config, "n_shared_experts") or 0) * expert_width(hf_config)


def groups(hf_config: dict[str, Any]) -> tuple[int, int]:
    """(groups of experts, how many of them a token may use); (1, 1) where that is not limited."""
    if value(hf_config, "topk_method") == "greedy":
        return 1, 1
    count = int(hf_config.get("n_group") or 1)
    return (count, int(hf_config["topk_group"])) if count > 1 else (1, 1)


def moe_layers(hf_config: dict[str, Any]) -> list[bool]:
    """Per layer, whether it has experts: every ``decoder_sparse_step``-th, after the first dense
    ones, but not those listed as dense."""
    layers = int(hf_config["num_hidden_layers"])
    if not family(hf_config).moe:
        return [False] * layers
    dense = set(hf_config.get("mlp_only_layers") or ())
    first = int(value(hf_config, "first_k_dense_replace") or 0)
    step = int(hf_config.get("decoder_sparse_step") or 1)
    return [i >= first and i not in dense and (i + 1) % step == 0 for i in range(layers)]


def windows(hf_config: dict[str, Any]) -> tuple[int, list[bool]] | None:
    """(positions that a query sees, which layers are so limited), or None without a window."""
    size = value(hf_config, "sliding_window")
    layers = int(hf_config["num_hidden_layers"])
    kinds = value(hf_config, "layer_types")
    if not size:
        return None
    if kinds == "alternating":
        return int(size), [i % 2 == 0 for i in range(layers)]
    if kinds:
        limited = [kind == "sliding_attention" for kind in kinds]
        return (int(size), limited) if any(limited) else None
    has = "sliding_window" in known(hf_config).defaults
    return (int(size), [True] * layers) if has else None


def words(hf_config: dict[str, Any]) -> frozenset[str]:
    """What rules can depend on and holds for the whole model."""
    found = family(hf_config)
    present = {
        "": True,
        "untied": not tied(hf_config),
        "qk_norm": has_qk_norm(hf_config),
        "qkv_bias": has_qkv_bias(hf_config),
        "low_rank_queries": found.latent and hf_config.get("q_lora_rank") is not None,
        "full_queries": found.latent and hf_config.get("q_lora_rank") is None,
    }
    return frozenset(word for word, holds in present.items() if holds)


def tied(hf_config: dict[str, Any]) -> bool:
    """Whether embeddings and output layer are one tensor."""
    return bool(value(hf_config, "tie_word_embeddings") or False)


def has_qk_norm(hf_config: dict[str, Any]) -> bool:
    """Whether queries and keys are normalised (not the latent vectors)."""
    how = known(hf_config).qk_norm
    return how in ("head", "whole") or bool(how and value(hf_config, how))


def has_qkv_bias(hf_config: dict[str, Any]) -> bool:
    """Whether the projections to queries, keys and values have a bias."""
    how = known(hf_config).qkv_bias
    return bool(value(hf_config, how)) if isinstance(how, str) else how


def divided(hf_config: dict[str, Any]) -> dict[str, int]:
    """What tensor parallel divides over its ranks, by the name of its key."""
    sizes = {
        "num_attention_heads": int(hf_config["num_attention_heads"]),
        "num_key_value_heads": query_groups(hf_config),
        "vocab_size": int(hf_config["vocab_size"]),
    }
    if hf_config.get("intermediate_size"):
        sizes["intermediate_size"] = int(hf_config["intermediate_size"])
    return sizes


def _require(key: str, found: Any, accepted: tuple[Any, ...]) -> None:
    if found not in accepted:
        raise _refused(key, found, " or ".join(map(repr, accepted)))


def _refused(key: str, found: Any, expected: str) -> UsageError:
    return UsageError(
        f"the mcore backend does not build {key} = {found!r}",
        where=f"model.hf_config: {key}",
        expected=expected,
    )
