"""Model types without a class in transformers whose mathematics is that of a stock class.

A stand-in counts because remapped weights (`runner.stand_ins`) give the logits of an independent
plain implementation of the published mathematics (tests/runner/test_stand_ins.py); a type that is
not here has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class StandIn:
    """model_type: of the stock class; config: published configuration -> its configuration;
    differs: what the published code does besides, outside training at the published length."""

    model_type: str
    config: Callable[[Mapping[str, Any]], dict[str, Any]]
    differs: str = ""


def _like_llama(public: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """The keys have Llama's names. A dynamic scaling acts beyond the trained length only."""
    dropped = ("architectures", "auto_map", "rope_scaling", "rotary", "bias")
    kept = {key: value for key, value in public.items() if key not in dropped}
    return {**kept, "model_type": "llama", "hidden_act": "silu", **changes}


def _qwen(public: Mapping[str, Any]) -> dict[str, Any]:
    """Qwen's intermediate_size counts both halves of the gated block."""
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    return {
        **{key: public[key] for key in sizes},
        "model_type": "qwen2",
        "hidden_act": "silu",
        "num_key_value_heads": public["num_attention_heads"],
        "intermediate_size": public["intermediate_size"] // 2,
        "rms_norm_eps": public.get("layer_norm_epsilon", 1e-6),
        "rope_theta": float(public.get("rotary_emb_base", 10000)),
        "max_position_embeddings": public.get("seq_length", 8192),
        "tie_word_embeddings": bool(public.get("tie_word_embeddings", False)),
        "use_sliding_window": False,
    }


STAND_INS: dict[str, StandIn] = {
    "aquila": StandIn("llama", _like_llama),
    "internlm": StandIn("llama", lambda public: _like_llama(public, attention_bias=True)),
    "internlm2": StandIn("llama", _like_llama, "dynamic rotary scaling beyond the trained length"),
    "qwen": StandIn(
        "qwen2", _qwen, "logarithmic attention and dynamic rotary beyond the trained length"
    ),
}


def stand_in(public: Mapping[str, Any]) -> dict[str, Any] | None:
    """The stock configuration that stands in for a published one, or None."""
    found = STAND_INS.get(str(public.get("model_type")))
    return None if found is None else found.config(public)
