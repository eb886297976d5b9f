"""What a model is made of, as far as memory and arithmetic depend on it.

A layer is a list of mixers (attention and its relatives), of dense MLPs, and at most one set of
routed experts. Sizes are elements, not bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from certify.plan.stock import COMMON, Habits


@dataclass(frozen=True)
class Weight:
    """One tensor of a checkpoint, under its module name (``self_attn.q_proj.weight``).

    shape: as published, routed experts of a layer stacked in dimension 0; part: attention, dense,
    router, expert, shared, norm, embedding or head; tp: the dimension that tensor parallelism
    divides, None where every rank holds it whole; counts: a matrix that each token goes through
    (experts: topk of them), so part of N_active.
    """

    name: str
    shape: tuple[int, ...]
    part: str
    tp: int | None = None
    counts: bool = False

    @property
    def numel(self) -> int:
        """Elements of the whole tensor."""
        product = 1
        for size in self.shape:
            product *= size
        return product


@dataclass(frozen=True)
class Mixer:
    """How one block mixes tokens. Widths are elements a token.

    q, k, v: what the fused attention kernel keeps for its backward pass; out: its result, which
    the output projection keeps; heads: query heads (one fp32 log-sum-exp each); normed: widths
    that pass a norm of their own before; other: further elements kept a token (latents); fp32:
    the same in fp32; beside_v: elements that stay because v is a view of the tensor they are in;
    score_width: heads x (d_qk + d_v), the factor of the FLOPs that grow with the length (0 for
    recurrent mixers); window: tokens attention looks back at most, None for all.
    """

    kind: str
    q: int
    k: int
    v: int
    out: int
    heads: int
    normed: int = 0
    other: int = 0
    fp32: int = 0
    beside_v: int = 0
    score_width: int = 0
    window: int | None = None


@dataclass(frozen=True)
class Mlp:
    """ffn: intermediate width; gated: two input projections (SwiGLU, GeGLU) or one."""

    ffn: int
    gated: bool = True

    @property
    def kept(self) -> int:
        """Elements kept a token: gate, up, activation, product; ungated: input and output."""
        return (4 if self.gated else 2) * self.ffn


@dataclass(frozen=True)
class Moe:
    """experts: routed experts with weights; topk: chosen a token; mlp: one of them; zero_experts:
    experts that pass a token on unchanged (LongCat); shared: the shared expert, or None;
    shared_gate: its result is multiplied with a gate of its own."""

    experts: int
    topk: int
    mlp: Mlp
    shared: Mlp | None = None
    zero_experts: int = 0
    shared_gate: bool = False

    @property
    def active(self) -> float:
        """Experts with weights that a token passes on average, routing balanced."""
        return self.topk * self.experts / (self.experts + self.zero_experts)


@dataclass(frozen=True)
class Layer:
    """One decoder layer. norms: norms of the residual width; dropouts: of the residual width,
    with a probability above 0; habits: of the class that computes it."""

    mixers: tuple[Mixer, ...]
    mlps: tuple[Mlp, ...]
    moe: Moe | None
    norms: int
    weights: tuple[Weight, ...]
    dropouts: int = 0
    habits: Habits = COMMON

    def numel(self, *parts: str) -> int:
        """Elements of the weights of these parts, of all when none is named."""
        return sum(w.numel for w in self.weights if not parts or w.part in parts)


@dataclass(frozen=True)
class Architecture:
    """A model. embedding, head (None when tied) and norm stand outside the layers.

    mtp: layers of multi-token prediction, each with a 2h x h projection before it; vocab: rows
    of the embedding as trained; capped: logits pass a tanh, whose result stays beside them;
    notes: what was assumed while reading the facts.
    """

    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    outer: tuple[Weight, ...]
    tied: bool
    mtp: tuple[Layer, ...] = ()
    notes: tuple[str, ...] = ()
    capped: bool = False

    @property
    def weights(self) -> tuple[Weight, ...]:
        """Every tensor, layers first."""
        inner = [w for layer in (*self.layers, *self.mtp) for w in layer.weights]
        return (*inner, *self.outer)

    @property
    def parameters(self) -> int:
        """Elements of the whole model."""
        return sum(w.numel for w in self.weights)
