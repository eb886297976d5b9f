"""Which tensors a checkpoint of a known model type has, from its config.json.

Names and shapes are those of the published Hugging Face checkpoints, one matrix an expert.
A type that is not in `FAMILIES` is checked without shapes, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.weights import families
from certify.weights.blocks import (
    Sizes,
    attention,
    gated,
    latent_attention,
    linear,
    norms,
    routed,
)
from certify.weights.files import BadFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from certify.weights.blocks import Named

MAX_TENSORS = 200_000


@dataclass(frozen=True)
class Expected:
    """required: tensor name -> shape; optional: likewise, may be absent; ignored: prefixes and
    suffixes of names that some checkpoints carry and nobody loads."""

    required: Mapping[str, tuple[int, ...]]
    optional: Mapping[str, tuple[int, ...]]
    ignored: tuple[str, ...]
    vocab_size: int


def _dense(c: Sizes, at: str, qkv_bias: bool, qk_norm: bool) -> Iterator[Named]:
    bias = c.flag("attention_bias")
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", qkv_bias or bias, bias, qk_norm)
    hidden, inner = c.size("hidden_size"), c.size("intermediate_size")
    yield from gated(f"{at}.mlp", hidden, inner, c.flag("mlp_bias"))


def _llama(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    return _dense(c, at, qkv_bias=False, qk_norm=False)


def _qwen2(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """Qwen2 and 2.5: bias on q, k and v, none on the output."""
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", True, False, False)
    yield from gated(f"{at}.mlp", c.size("hidden_size"), c.size("intermediate_size"))


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
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", bias, bias, True)
    yield f"{at}.mlp.gate.weight", (experts, hidden)
    for expert in range(experts):
        yield from gated(f"{at}.mlp.experts.{expert}", hidden, c.size("moe_intermediate_size"))


def _mixtral(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    hidden, inner = c.size("hidden_size"), c.size("intermediate_size")
    experts = c.size("num_local_experts")
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", False, False, False)
    yield f"{at}.block_sparse_moe.gate.weight", (experts, hidden)
    for expert in range(experts):
        one = f"{at}.block_sparse_moe.experts.{expert}"
        yield from linear(f"{one}.w1", inner, hidden)
        yield from linear(f"{one}.w2", hidden, inner)
        yield from linear(f"{one}.w3", inner, hidden)


def _deepseek_v2(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    yield from norms(c, at)
    yield from latent_attention(c, f"{at}.self_attn")
    yield from routed(c, at, layer, correction=False)


def _deepseek_v3(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    yield from norms(c, at)
    yield from latent_attention(c, f"{at}.self_attn")
    yield from routed(
        c, at, layer, correction=c.config.get("topk_method", "noaux_tc") == "noaux_tc"
    )


def _glm4_moe(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    bias, norm = c.flag("attention_bias"), c.flag("use_qk_norm")
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", bias, False, norm)
    yield from routed(c, at, layer, correction=True)


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
    "internlm3": _llama,
    "ernie4_5": families.ernie4_5,
    "seed_oss": families.seed_oss,
    "gemma2": families.gemma2,
    "phi3": families.phi3,
    "glm": families.glm,
    "olmo2": families.olmo2,
    "minicpm3": families.minicpm3,
    "qwen2_moe": families.qwen2_moe,
    "phimoe": families.phimoe,
    "minimax_m2": families.minimax_m2,
    "gpt_oss": families.gpt_oss,
    "deepseek_v32": families.deepseek_v32,
}
# Types whose class ties the output matrix to the embedding unless told otherwise.
_TIED = frozenset({"gemma", "gemma2", "ernie4_5", "minicpm3"})


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
    if kind == "phimoe":
        required.update(families.phimoe_outside(c))
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
