"""Which tensors a checkpoint of a known model type has, from its config.json.

Names and shapes are those of the published Hugging Face checkpoints, one matrix an expert.
A type that is not in `FAMILIES` is checked without shapes, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.weights.files import BadFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Named = tuple[str, tuple[int, ...]]

# More than any published model; beyond it a configuration is damaged or hostile.
MAX_SIZE = 1 << 24
MAX_TENSORS = 200_000


@dataclass(frozen=True)
class Expected:
    """required: tensor name -> shape; optional: likewise, may be absent; ignored: prefixes and
    suffixes of names that some checkpoints carry and nobody loads."""

    required: Mapping[str, tuple[int, ...]]
    optional: Mapping[str, tuple[int, ...]]
    ignored: tuple[str, ...]
    vocab_size: int


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


def _linear(name: str, out: int, into: int, bias: bool = False) -> Iterator[Named]:
    yield f"{name}.weight", (out, into)
    if bias:
        yield f"{name}.bias", (out,)


def _gated(at: str, hidden: int, inner: int, bias: bool = False) -> Iterator[Named]:
    """A gated feed-forward block: gate, up and down."""
    yield from _linear(f"{at}.gate_proj", inner, hidden, bias)
    yield from _linear(f"{at}.up_proj", inner, hidden, bias)
    yield from _linear(f"{at}.down_proj", hidden, inner, bias)


def _attention(c: Sizes, at: str, qkv_bias: bool, out_bias: bool, qk_norm: bool) -> Iterator[Named]:
    """Grouped-query attention; qk_norm: one norm of a head's width each for q and k."""
    hidden, width = c.size("hidden_size"), c.head_dim
    yield from _linear(f"{at}.q_proj", c.heads * width, hidden, qkv_bias)
    yield from _linear(f"{at}.k_proj", c.kv_heads * width, hidden, qkv_bias)
    yield from _linear(f"{at}.v_proj", c.kv_heads * width, hidden, qkv_bias)
    yield from _linear(f"{at}.o_proj", hidden, c.heads * width, out_bias)
    if qk_norm:
        yield f"{at}.q_norm.weight", (width,)
        yield f"{at}.k_norm.weight", (width,)


def _latent_attention(c: Sizes, at: str) -> Iterator[Named]:
    """DeepSeek's attention with low-rank keys and values, and queries where q_lora_rank is set."""
    hidden, heads, bias = c.size("hidden_size"), c.heads, c.flag("attention_bias")
    rope, nope = c.size("qk_rope_head_dim"), c.size("qk_nope_head_dim")
    value, rank = c.size("v_head_dim"), c.size("kv_lora_rank")
    if c.config.get("q_lora_rank") is None:
        yield from _linear(f"{at}.q_proj", heads * (nope + rope), hidden)
    else:
        low = c.size("q_lora_rank")
        yield from _linear(f"{at}.q_a_proj", low, hidden, bias)
        yield f"{at}.q_a_layernorm.weight", (low,)
        yield from _linear(f"{at}.q_b_proj", heads * (nope + rope), low)
    yield from _linear(f"{at}.kv_a_proj_with_mqa", rank + rope, hidden, bias)
    yield f"{at}.kv_a_layernorm.weight", (rank,)
    yield from _linear(f"{at}.kv_b_proj", heads * (nope + value), rank)
    yield from _linear(f"{at}.o_proj", hidden, heads * value, bias)


def _norms(c: Sizes, at: str) -> Iterator[Named]:
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{at}.{name}.weight", (c.size("hidden_size"),)


def _dense(c: Sizes, at: str, qkv_bias: bool, qk_norm: bool) -> Iterator[Named]:
    bias = c.flag("attention_bias")
    yield from _norms(c, at)
    yield from _attention(c, f"{at}.self_attn", qkv_bias or bias, bias, qk_norm)
    hidden, inner = c.size("hidden_size"), c.size("intermediate_size")
    yield from _gated(f"{at}.mlp", hidden, inner, c.flag("mlp_bias"))


def _llama(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    return _dense(c, at, qkv_bias=False, qk_norm=False)


def _qwen2(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """Qwen2 and 2.5: bias on q, k and v, none on the output."""
    yield from _norms(c, at)
    yield from _attention(c, f"{at}.self_attn", True, False, False)
    yield from _gated(f"{at}.mlp", c.size("hidden_size"), c.size("intermediate_size"))


def _qwen3(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    return _dense(c, at, qkv_bias=False, qk_norm=True)


def _qwen3_moe(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    dense = c.config.get("mlp_only_layers")
    experts = c.size("num_experts", least=0)
    listed = isinstance(dense, list) and layer in dense
    if listed or not experts or (layer + 1) % c.size("decoder_sparse_step", 1):
        yield from _qwen3(c, at, layer)
        return
    bias, hidden = c.flag("attention_bias"), c.size("hidden_size")
    yield from _norms(c, at)
    yield from _attention(c, f"{at}.self_attn", bias, bias, True)
    yield f"{at}.mlp.gate.weight", (experts, hidden)
    for expert in range(experts):
        yield from _gated(f"{at}.mlp.experts.{expert}", hidden, c.size("moe_intermediate_size"))


def _mixtral(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    hidden, inner = c.size("hidden_size"), c.size("intermediate_size")
    experts = c.size("num_local_experts")
    yield from _norms(c, at)
    yield from _attention(c, f"{at}.self_attn", False, False, False)
    yield f"{at}.block_sparse_moe.gate.weight", (experts, hidden)
    for expert in range(experts):
        one = f"{at}.block_sparse_moe.experts.{expert}"
        yield from _linear(f"{one}.w1", inner, hidden)
        yield from _linear(f"{one}.w2", hidden, inner)
        yield from _linear(f"{one}.w3", inner, hidden)


def _routed(c: Sizes, at: str, layer: int, correction: bool) -> Iterator[Named]:
    """Feed-forward of DeepSeek and GLM-4: dense first layers, then routed and shared experts."""
    hidden, inner = c.size("hidden_size"), c.size("moe_intermediate_size")
    if layer < c.size("first_k_dense_replace", 0, least=0):
        yield from _gated(f"{at}.mlp", hidden, c.size("intermediate_size"))
        return
    experts = c.size("n_routed_experts")
    yield f"{at}.mlp.gate.weight", (experts, hidden)
    if correction:
        yield f"{at}.mlp.gate.e_score_correction_bias", (experts,)
    for expert in range(experts):
        yield from _gated(f"{at}.mlp.experts.{expert}", hidden, inner)
    shared = c.size("n_shared_experts", 0, least=0)
    if shared:
        yield from _gated(f"{at}.mlp.shared_experts", hidden, inner * shared)


def _deepseek_v2(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    yield from _norms(c, at)
    yield from _latent_attention(c, f"{at}.self_attn")
    yield from _routed(c, at, layer, correction=False)


def _deepseek_v3(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    yield from _norms(c, at)
    yield from _latent_attention(c, f"{at}.self_attn")
    yield from _routed(
        c, at, layer, correction=c.config.get("topk_method", "noaux_tc") == "noaux_tc"
    )


def _glm4_moe(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    bias, norm = c.flag("attention_bias"), c.flag("use_qk_norm")
    yield from _norms(c, at)
    yield from _attention(c, f"{at}.self_attn", bias, False, norm)
    yield from _routed(c, at, layer, correction=True)


# Model type of config.json -> tensors of one layer. Adding one: a function above, a line here.
FAMILIES: dict[str, Callable[[Sizes, str, int], Iterator[Named]]] = {
    "llama": _llama,
    "mistral": _llama,
    "gemma": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "glm4_moe": _glm4_moe,
}
# Types whose class ties the output matrix to the embedding unless told otherwise.
_TIED = frozenset({"gemma"})


def expected_tensors(config: Mapping[str, Any]) -> Expected | None:
    """The tensors of a configuration, None for a model type that is not known here.

    Raises BadFile for a size that is missing, not a number, or beyond every published model.
    """
    kind = config.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        return None
    c = Sizes(config)
    layers, hidden, vocab = c.size("num_hidden_layers"), c.size("hidden_size"), c.size("vocab_size")
    required: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
    }
    for layer in range(layers):
        for name, shape in family(c, f"model.layers.{layer}", layer):
            required[name] = shape
            if len(required) > MAX_TENSORS:
                raise BadFile(f"it describes more than {MAX_TENSORS:,} tensors")
    head = {"lm_head.weight": (vocab, hidden)}
    tied = c.flag("tie_word_embeddings", kind in _TIED)
    if not tied:
        required.update(head)
    # Layers that predict further tokens follow the last one; inv_freq is computed, not loaded.
    extra = c.size("num_nextn_predict_layers", 0, least=0)
    ignored = tuple(f"model.layers.{layers + n}." for n in range(min(extra, 16)))
    return Expected(required, head if tied else {}, (*ignored, "*.rotary_emb.inv_freq"), vocab)
