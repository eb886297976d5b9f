"""What the supported decoder families ask of Megatron-Core, read from a Hugging Face config.

One entry of `FAMILIES` per ``model_type``. Standard library only; `config` turns a `Family` and
its numbers into Megatron's own configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from certify.errors import UsageError


@dataclass(frozen=True)
class Family:
    """Structure that the configuration file does not spell out.

    qk_norm: RMSNorm on each head of queries and keys; qkv_bias: whether the three projections
    have a bias; moe: experts instead of a dense MLP.
    """

    qk_norm: bool = False
    qkv_bias: bool = False
    moe: bool = False


FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(qk_norm=True),
    "qwen3_moe": Family(qk_norm=True, moe=True),
}

# Values that change the mathematics and that no family here uses: (key, accepted values).
_REFUSED_UNLESS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("hidden_act", ("silu",)),
    ("attention_dropout", (0, 0.0, None)),
    ("use_sliding_window", (False, None)),
    ("mlp_bias", (False, None)),
    ("rope_scaling", (None,)),
)


def family(hf_config: dict[str, Any]) -> Family:
    """The family of a configuration. Raises UsageError for one this backend does not build."""
    name = hf_config.get("model_type")
    if name not in FAMILIES:
        raise UsageError(
            f"the mcore backend does not build model_type {name!r}",
            where="model.hf_config: model_type",
            expected="one of " + ", ".join(sorted(FAMILIES)),
        )
    found = FAMILIES[name]
    for key, accepted in _REFUSED_UNLESS:
        if key in hf_config and hf_config[key] not in accepted:
            raise _refused(key, hf_config[key], " or ".join(map(repr, accepted)))
    if hf_config.get("attention_bias") and not found.qkv_bias:
        raise _refused("attention_bias", True, "False")
    return found


def rope_theta(hf_config: dict[str, Any]) -> float:
    """The base of the rotary embedding, under either of the names in use.

    Raises UsageError when the configuration scales the positions.
    """
    parameters = hf_config.get("rope_parameters") or {}
    if (kind := parameters.get("rope_type", "default")) != "default":
        raise _refused("rope_parameters.rope_type", kind, "'default'")
    theta = parameters.get("rope_theta", hf_config.get("rope_theta"))
    if theta is None:
        raise UsageError(
            "the configuration has no base for the rotary embedding",
            where="model.hf_config",
            expected="rope_theta or rope_parameters.rope_theta",
        )
    return float(theta)


def head_dim(hf_config: dict[str, Any]) -> int:
    """Width of one attention head."""
    found = hf_config.get("head_dim")
    return int(found or hf_config["hidden_size"] // hf_config["num_attention_heads"])


def query_groups(hf_config: dict[str, Any]) -> int:
    """Number of key and value heads."""
    return int(hf_config.get("num_key_value_heads") or hf_config["num_attention_heads"])


def num_experts(hf_config: dict[str, Any]) -> int:
    """Number of experts of a layer, under either of the names in use; 0 for a dense model."""
    return int(hf_config.get("num_experts") or hf_config.get("num_local_experts") or 0)


def moe_layers(hf_config: dict[str, Any]) -> list[bool]:
    """Per layer, whether it has experts (transformers' ``decoder_sparse_step`` rule)."""
    layers = int(hf_config["num_hidden_layers"])
    if not family(hf_config).moe:
        return [False] * layers
    dense = set(hf_config.get("mlp_only_layers") or ())
    step = int(hf_config.get("decoder_sparse_step") or 1)
    return [i not in dense and (i + 1) % step == 0 for i in range(layers)]


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


def _refused(key: str, value: Any, expected: str) -> UsageError:
    return UsageError(
        f"the mcore backend does not build {key} = {value!r}",
        where=f"model.hf_config: {key}",
        expected=expected,
    )
