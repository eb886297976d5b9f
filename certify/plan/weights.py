"""The tensors of each kind of block, and the block's dimensions, from the numbers that define it.

Names follow the module names of transformers, so that the module patterns of FSDP2 recipes
(``model.layers.{*}.mlp.experts``) apply to them. Projections that read the hidden state are
divided by output rows under tensor parallelism (tp=0), those that write it by input columns
(tp=1), as in Megatron-LM (arXiv 1909.08053, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

from certify.plan.architecture import Architecture, Layer, Mixer, Mlp, Moe, Weight

# Positions of a chunk of the gated delta rule (transformers, flash-linear-attention).
_DELTA_CHUNK = 64


@dataclass(frozen=True)
class AttentionSizes:
    """Grouped-query attention. qk_norm: ``head`` (one scale for all heads), ``full`` or empty;
    gate: the query projection also makes an output gate (Qwen3-Next); sinks: one learned logit
    a head (gpt-oss)."""

    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: str = ""
    gate: bool = False
    sinks: bool = False
    window: int | None = None


@dataclass(frozen=True)
class LatentSizes:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434). q_rank None: no query latent;
    index_heads, index_dim: the lightning indexer of sparse attention, 0 without."""

    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int
    index_heads: int = 0
    index_dim: int = 0


@dataclass(frozen=True)
class DeltaSizes:
    """Gated delta rule (Qwen3-Next)."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int


@dataclass(frozen=True)
class MambaSizes:
    """Mamba2 (arXiv 2405.21060): inner width expand x hidden."""

    inner: int
    groups: int
    state: int
    head_dim: int
    conv: int


def _linear(
    name: str, rows: int, columns: int, part: str, tp: int | None, bias: bool = False
) -> list[Weight]:
    found = [Weight(f"{name}.weight", (rows, columns), part, tp, counts=True)]
    if bias:
        found.append(Weight(f"{name}.bias", (rows,), part, 0 if tp == 0 else None))
    return found


def attention(hidden: int, s: AttentionSizes) -> tuple[Mixer, list[Weight]]:
    """Grouped-query attention."""
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    at = "self_attn"
    found = _linear(f"{at}.q_proj", q * (2 if s.gate else 1), hidden, "attention", 0, s.qkv_bias)
    found += _linear(f"{at}.k_proj", kv, hidden, "attention", 0, s.qkv_bias)
    found += _linear(f"{at}.v_proj", kv, hidden, "attention", 0, s.qkv_bias)
    found += _linear(f"{at}.o_proj", hidden, q, "attention", 1, s.out_bias)
    if s.qk_norm:
        widths = (s.head_dim, s.head_dim) if s.qk_norm == "head" else (q, kv)
        found += [
            Weight(f"{at}.{n}_norm.weight", (w,), "norm") for n, w in zip("qk", widths, strict=True)
        ]
    if s.sinks:
        found.append(Weight(f"{at}.sinks", (s.heads,), "attention", 0))
    return Mixer(
        kind="attention",
        q=q,
        k=kv,
        v=kv,
        out=q * (3 if s.gate else 1),  # the gate, and the product with it
        heads=s.heads,
        normed=q + kv if s.qk_norm else 0,
        score_width=2 * q,
        window=s.window,
    ), found


def latent_attention(hidden: int, s: LatentSizes) -> tuple[Mixer, list[Weight]]:
    """Multi-head latent attention; the latents are not divided by tensor parallelism."""
    at, d_qk = "self_attn", s.nope + s.rope
    q_in = s.q_rank or hidden
    found: list[Weight] = []
    if s.q_rank:
        found += _linear(f"{at}.q_a_proj", s.q_rank, hidden, "attention", None)
        found.append(Weight(f"{at}.q_a_layernorm.weight", (s.q_rank,), "norm"))
    found += _linear(f"{at}.q_b_proj", s.heads * d_qk, q_in, "attention", 0)
    found += _linear(f"{at}.kv_a_proj_with_mqa", s.kv_rank + s.rope, hidden, "attention", None)
    found.append(Weight(f"{at}.kv_a_layernorm.weight", (s.kv_rank,), "norm"))
    found += _linear(f"{at}.kv_b_proj", s.heads * (s.nope + s.value), s.kv_rank, "attention", 0)
    found += _linear(f"{at}.o_proj", hidden, s.heads * s.value, "attention", 1)
    if s.index_heads:
        width = s.index_heads * s.index_dim
        found += _linear(f"{at}.indexer.wq_b", width, q_in, "attention", None)
        found += _linear(f"{at}.indexer.wk", s.index_dim, hidden, "attention", None)
        found += [
            Weight(f"{at}.indexer.k_norm.{n}", (s.index_dim,), "norm") for n in ("weight", "bias")
        ]
        found += _linear(f"{at}.indexer.weights_proj", s.index_heads, hidden, "attention", None)
    return Mixer(
        kind="latent",
        q=s.heads * d_qk,
        k=s.heads * d_qk,
        v=s.heads * s.value,
        out=s.heads * s.value,
        heads=s.heads,
        normed=(s.q_rank or 0) + s.kv_rank,
        other=(s.q_rank or 0) + s.kv_rank + s.rope,
        score_width=s.heads * (d_qk + s.value),
        # Keys and values are cut out of the result of one projection.
        beside_v=s.heads * s.nope,
    ), found


def delta_attention(hidden: int, s: DeltaSizes) -> tuple[Mixer, list[Weight]]:
    """Gated delta rule: projections, a short convolution, a recurrence over chunks."""
    at = "linear_attn"
    key, value = s.key_heads * s.key_dim, s.value_heads * s.value_dim
    mixed = 2 * key + value
    found = _linear(f"{at}.in_proj_qkvz", mixed + value, hidden, "attention", 0)
    found += _linear(f"{at}.in_proj_ba", 2 * s.value_heads, hidden, "attention", 0)
    found.append(Weight(f"{at}.conv1d.weight", (mixed, 1, s.conv), "attention", 0))
    found += [Weight(f"{at}.{n}", (s.value_heads,), "attention", 0) for n in ("dt_bias", "A_log")]
    found.append(Weight(f"{at}.norm.weight", (s.value_dim,), "norm"))
    found += _linear(f"{at}.out_proj", hidden, value, "attention", 1)
    # The convolution keeps its input and its result; the recurrence a row of a chunk's matrix a
    # head; the gated norm its input, and its gate before and after SiLU, in fp32, and the
    # normalised value before and after its weight.
    return Mixer(
        "delta", key, key, value, value, 0,
        other=2 * mixed + 2 * value + s.value_heads * _DELTA_CHUNK,
        fp32=3 * value + 4 * s.value_heads,
    ), found  # fmt: skip


def mamba(hidden: int, s: MambaSizes) -> tuple[Mixer, list[Weight]]:
    """Mamba2: projections, a short convolution, a scan over chunks."""
    heads, mixed = s.inner // s.head_dim, s.inner + 2 * s.groups * s.state
    found = _linear("mixer.in_proj", s.inner + mixed + heads, hidden, "attention", 0)
    found.append(Weight("mixer.conv1d.weight", (mixed, 1, s.conv), "attention", 0))
    found.append(Weight("mixer.conv1d.bias", (mixed,), "attention", 0))
    found += [Weight(f"mixer.{n}", (heads,), "attention", 0) for n in ("dt_bias", "A_log", "D")]
    found.append(Weight("mixer.norm.weight", (s.inner,), "norm", 0))
    found += _linear("mixer.out_proj", hidden, s.inner, "attention", 1)
    state = s.groups * s.state
    return Mixer(
        "mamba", s.inner, state, state, s.inner, 0, normed=s.inner, other=2 * mixed + s.inner
    ), found


def dense(hidden: int, mlp: Mlp, at: str, part: str, bias: bool = False) -> list[Weight]:
    """A dense MLP or a shared expert."""
    names = ("gate_proj", "up_proj") if mlp.gated else ("up_proj",)
    found = [w for n in names for w in _linear(f"{at}.{n}", mlp.ffn, hidden, part, 0, bias)]
    return found + _linear(f"{at}.down_proj", hidden, mlp.ffn, part, 1, bias)


def experts(
    hidden: int, moe: Moe, *, bias: bool = False, router_bias: bool = False, gate: bool = False
) -> list[Weight]:
    """Router, routed experts (stacked), shared expert; gate: the shared expert has one."""
    all_experts = moe.experts + moe.zero_experts
    found = [Weight("mlp.gate.weight", (all_experts, hidden), "router", None, counts=True)]
    if router_bias:
        found.append(Weight("mlp.gate.bias", (all_experts,), "router"))
    e, m = moe.experts, moe.mlp.ffn
    wide = m * (2 if moe.mlp.gated else 1)
    found.append(Weight("mlp.experts.gate_up_proj", (e, wide, hidden), "expert", 1, counts=True))
    found.append(Weight("mlp.experts.down_proj", (e, hidden, m), "expert", 2, counts=True))
    if bias:
        found.append(Weight("mlp.experts.gate_up_proj_bias", (e, wide), "expert", 1))
        found.append(Weight("mlp.experts.down_proj_bias", (e, hidden), "expert"))
    if moe.shared is not None:
        found += dense(hidden, moe.shared, "mlp.shared_expert", "shared")
    if gate:
        found += _linear("mlp.shared_expert_gate", 1, hidden, "shared", None)
    return found


def norms(hidden: int, count: int, bias: bool = False) -> list[Weight]:
    """Norms of the residual width."""
    names = ("weight", "bias") if bias else ("weight",)
    return [Weight(f"norm_{i}.{n}", (hidden,), "norm") for i in range(count) for n in names]


def assemble(
    hidden: int,
    vocab: int,
    layers: tuple[Layer, ...],
    tied: bool,
    mtp: tuple[Layer, ...] = (),
    notes: tuple[str, ...] = (),
) -> Architecture:
    """A model of these layers, with embedding, head and final norm."""
    outer = [Weight("model.embed_tokens.weight", (vocab, hidden), "embedding", 0, counts=tied)]
    if not tied:
        outer.append(Weight("lm_head.weight", (vocab, hidden), "head", 0, counts=True))
    outer.append(Weight("model.norm.weight", (hidden,), "norm"))
    return Architecture(hidden, vocab, layers, tuple(outer), tied, mtp, notes)
