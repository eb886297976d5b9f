"""Tensors of one layer of further model types, as their published checkpoints name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.weights.blocks import (
    Sizes,
    attention,
    gated,
    latent_attention,
    linear,
    norms,
    routed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.weights.blocks import Named


def _fused(c: Sizes, at: str) -> Iterator[Named]:
    """A gated feed-forward block whose gate and up projections are one matrix."""
    hidden, inner = c.size("hidden_size"), c.size("intermediate_size")
    yield from linear(f"{at}.gate_up_proj", 2 * inner, hidden)
    yield from linear(f"{at}.down_proj", hidden, inner)


def _w123(at: str, hidden: int, inner: int) -> Iterator[Named]:
    """An expert under the names of Mixtral."""
    yield from linear(f"{at}.w1", inner, hidden)
    yield from linear(f"{at}.w2", hidden, inner)
    yield from linear(f"{at}.w3", inner, hidden)


def _wide_norms(c: Sizes, at: str) -> Iterator[Named]:
    """Norms of queries and keys over all heads at once."""
    yield f"{at}.q_norm.weight", (c.heads * c.head_dim,)
    yield f"{at}.k_norm.weight", (c.kv_heads * c.head_dim,)


def ernie4_5(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """One flag for every bias."""
    bias = c.flag("use_bias")
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", bias, bias, False)
    yield from gated(f"{at}.mlp", c.size("hidden_size"), c.size("intermediate_size"), bias)


def seed_oss(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """The output projection has a flag of its own for its bias."""
    yield from norms(c, at)
    yield from attention(
        c, f"{at}.self_attn", c.flag("attention_bias", True), c.flag("attention_out_bias"), False
    )
    hidden, inner = c.size("hidden_size"), c.size("intermediate_size")
    yield from gated(f"{at}.mlp", hidden, inner, c.flag("mlp_bias"))


def gemma2(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """Norms after both blocks as well as before them."""
    bias = c.flag("attention_bias")
    yield from norms(c, at)
    for name in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
        yield f"{at}.{name}.weight", (c.size("hidden_size"),)
    yield from attention(c, f"{at}.self_attn", bias, bias, False)
    yield from gated(f"{at}.mlp", c.size("hidden_size"), c.size("intermediate_size"))


def phi3(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """One matrix for queries, keys and values."""
    hidden, width = c.size("hidden_size"), c.head_dim
    yield from norms(c, at)
    yield from linear(f"{at}.self_attn.qkv_proj", (c.heads + 2 * c.kv_heads) * width, hidden)
    yield from linear(f"{at}.self_attn.o_proj", hidden, c.heads * width)
    yield from _fused(c, f"{at}.mlp")


def glm(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """GLM-4 as transformers keeps it: bias on q, k and v, one matrix for gate and up."""
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", c.flag("attention_bias", True), False, False)
    yield from _fused(c, f"{at}.mlp")


def olmo2(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """Norms after the blocks, and over all heads of queries and keys."""
    bias = c.flag("attention_bias")
    for name in ("post_attention_layernorm", "post_feedforward_layernorm"):
        yield f"{at}.{name}.weight", (c.size("hidden_size"),)
    yield from attention(c, f"{at}.self_attn", bias, bias, False)
    yield from _wide_norms(c, f"{at}.self_attn")
    yield from gated(f"{at}.mlp", c.size("hidden_size"), c.size("intermediate_size"))


def minicpm3(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """DeepSeek's attention with a dense feed-forward."""
    yield from norms(c, at)
    yield from latent_attention(c, f"{at}.self_attn")
    yield from gated(f"{at}.mlp", c.size("hidden_size"), c.size("intermediate_size"))


def qwen2_moe(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    """Routed experts beside one shared expert with a gate; some layers may be dense."""
    hidden, experts = c.size("hidden_size"), c.size("num_experts", least=0)
    dense = c.config.get("mlp_only_layers")
    listed = isinstance(dense, list) and layer in dense
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", c.flag("qkv_bias", True), False, False)
    if listed or not experts or (layer + 1) % c.size("decoder_sparse_step", 1):
        yield from gated(f"{at}.mlp", hidden, c.size("intermediate_size"))
        return
    yield f"{at}.mlp.gate.weight", (experts, hidden)
    for expert in range(experts):
        yield from gated(f"{at}.mlp.experts.{expert}", hidden, c.size("moe_intermediate_size"))
    yield f"{at}.mlp.shared_expert_gate.weight", (1, hidden)
    shared = c.size("shared_expert_intermediate_size")
    yield from gated(f"{at}.mlp.shared_expert", hidden, shared)


def phimoe(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """Norms with a bias; experts under the names of Mixtral."""
    hidden, experts, bias = (
        c.size("hidden_size"),
        c.size("num_local_experts"),
        c.flag("attention_bias"),
    )
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{at}.{name}.weight", (hidden,)
        yield f"{at}.{name}.bias", (hidden,)
    yield from attention(c, f"{at}.self_attn", bias, bias, False)
    yield f"{at}.block_sparse_moe.gate.weight", (experts, hidden)
    for expert in range(experts):
        one = f"{at}.block_sparse_moe.experts.{expert}"
        yield from _w123(one, hidden, c.size("intermediate_size"))


def phimoe_outside(c: Sizes) -> Iterator[Named]:
    """What Phi-3.5-MoE has outside its layers beyond the usual."""
    yield "model.norm.bias", (c.size("hidden_size"),)
    if c.flag("lm_head_bias"):
        yield "lm_head.bias", (c.size("vocab_size"),)


def minimax_m2(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """Norms over all heads of queries and keys; experts with a correction of their scores."""
    hidden, experts = c.size("hidden_size"), c.size("num_local_experts")
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", False, False, False)
    yield from _wide_norms(c, f"{at}.self_attn")
    yield f"{at}.block_sparse_moe.gate.weight", (experts, hidden)
    yield f"{at}.block_sparse_moe.e_score_correction_bias", (experts,)
    for expert in range(experts):
        one = f"{at}.block_sparse_moe.experts.{expert}"
        yield from _w123(one, hidden, c.size("intermediate_size"))


def gpt_oss(c: Sizes, at: str, _layer: int) -> Iterator[Named]:
    """Experts of a layer in one tensor each, with biases; a sink for every head."""
    hidden, inner = c.size("hidden_size"), c.size("intermediate_size")
    experts, bias = c.size("num_local_experts"), c.flag("attention_bias", True)
    yield from norms(c, at)
    yield from attention(c, f"{at}.self_attn", bias, bias, False)
    yield f"{at}.self_attn.sinks", (c.heads,)
    yield f"{at}.mlp.router.weight", (experts, hidden)
    yield f"{at}.mlp.router.bias", (experts,)
    yield f"{at}.mlp.experts.gate_up_proj", (experts, hidden, 2 * inner)
    yield f"{at}.mlp.experts.gate_up_proj_bias", (experts, 2 * inner)
    yield f"{at}.mlp.experts.down_proj", (experts, inner, hidden)
    yield f"{at}.mlp.experts.down_proj_bias", (experts, hidden)


def deepseek_v32(c: Sizes, at: str, layer: int) -> Iterator[Named]:
    """DeepSeek-V3 with the indexer of its sparse attention."""
    hidden, heads, width = c.size("hidden_size"), c.size("index_n_heads"), c.size("index_head_dim")
    yield from norms(c, at)
    yield from latent_attention(c, f"{at}.self_attn")
    yield from linear(f"{at}.self_attn.indexer.wq_b", heads * width, c.size("q_lora_rank"))
    yield from linear(f"{at}.self_attn.indexer.wk", width, hidden)
    yield f"{at}.self_attn.indexer.k_norm.weight", (width,)
    yield f"{at}.self_attn.indexer.k_norm.bias", (width,)
    yield from linear(f"{at}.self_attn.indexer.weights_proj", heads, hidden)
    yield from routed(c, at, layer, correction=True)
