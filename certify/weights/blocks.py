"""Blocks that checkpoints are made of: names and shapes, as published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.weights.files import BadFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Named = tuple[str, tuple[int, ...]]

# More than any published model; beyond it a configuration is damaged or hostile.
MAX_SIZE = 1 << 24


class Sizes:
    """Typed access to config.json. Raises BadFile naming the key at fault."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def size(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number of the configuration."""
        value = self.config.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_SIZE:
            raise BadFile(f"{key} is {str(value)[:40]}, which is no usable size")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """A truth value of the configuration."""
        value = self.config.get(key, default)
        return value if isinstance(value, bool) else default

    @property
    def heads(self) -> int:
        return self.size("num_attention_heads")

    @property
    def kv_heads(self) -> int:
        return self.size("num_key_value_heads", self.heads)

    @property
    def head_dim(self) -> int:
        return self.size("head_dim", max(1, self.size("hidden_size") // self.heads))


def linear(name: str, out: int, into: int, bias: bool = False) -> Iterator[Named]:
    """A matrix of ``out`` rows, and its bias."""
    yield f"{name}.weight", (out, into)
    if bias:
        yield f"{name}.bias", (out,)


def gated(at: str, hidden: int, inner: int, bias: bool = False) -> Iterator[Named]:
    """A gated feed-forward block: gate, up and down."""
    yield from linear(f"{at}.gate_proj", inner, hidden, bias)
    yield from linear(f"{at}.up_proj", inner, hidden, bias)
    yield from linear(f"{at}.down_proj", hidden, inner, bias)


def attention(c: Sizes, at: str, qkv_bias: bool, out_bias: bool, qk_norm: bool) -> Iterator[Named]:
    """Grouped-query attention; qk_norm: one norm of a head's width each for q and k."""
    hidden, width = c.size("hidden_size"), c.head_dim
    yield from linear(f"{at}.q_proj", c.heads * width, hidden, qkv_bias)
    yield from linear(f"{at}.k_proj", c.kv_heads * width, hidden, qkv_bias)
    yield from linear(f"{at}.v_proj", c.kv_heads * width, hidden, qkv_bias)
    yield from linear(f"{at}.o_proj", hidden, c.heads * width, out_bias)
    if qk_norm:
        yield f"{at}.q_norm.weight", (width,)
        yield f"{at}.k_norm.weight", (width,)


def latent_attention(c: Sizes, at: str) -> Iterator[Named]:
    """DeepSeek's attention with low-rank keys and values, and queries where q_lora_rank is set."""
    hidden, heads, bias = c.size("hidden_size"), c.heads, c.flag("attention_bias")
    rope, nope = c.size("qk_rope_head_dim"), c.size("qk_nope_head_dim")
    value, rank = c.size("v_head_dim"), c.size("kv_lora_rank")
    if c.config.get("q_lora_rank") is None:
        yield from linear(f"{at}.q_proj", heads * (nope + rope), hidden)
    else:
        low = c.size("q_lora_rank")
        yield from linear(f"{at}.q_a_proj", low, hidden, bias)
        yield f"{at}.q_a_layernorm.weight", (low,)
        yield from linear(f"{at}.q_b_proj", heads * (nope + rope), low)
    yield from linear(f"{at}.kv_a_proj_with_mqa", rank + rope, hidden, bias)
    yield f"{at}.kv_a_layernorm.weight", (rank,)
    yield from linear(f"{at}.kv_b_proj", heads * (nope + value), rank)
    yield from linear(f"{at}.o_proj", hidden, heads * value, bias)


def norms(c: Sizes, at: str) -> Iterator[Named]:
    """The norms before attention and feed-forward."""
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{at}.{name}.weight", (c.size("hidden_size"),)


def routed(c: Sizes, at: str, layer: int, correction: bool) -> Iterator[Named]:
    """Feed-forward of DeepSeek and GLM-4: dense first layers, then routed and shared experts."""
    hidden, inner = c.size("hidden_size"), c.size("moe_intermediate_size")
    if layer < c.size("first_k_dense_replace", 0, least=0):
        yield from gated(f"{at}.mlp", hidden, c.size("intermediate_size"))
        return
    experts = c.size("n_routed_experts")
    yield f"{at}.mlp.gate.weight", (experts, hidden)
    if correction:
        yield f"{at}.mlp.gate.e_score_correction_bias", (experts,)
    for expert in range(experts):
        yield from gated(f"{at}.mlp.experts.{expert}", hidden, inner)
    shared = c.size("n_shared_experts", 0, least=0)
    if shared:
        yield from gated(f"{at}.mlp.shared_experts", hidden, inner * shared)
