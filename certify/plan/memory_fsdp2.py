"""Device memory of a training step under FSDP2, stock transformers classes, fused attention.

One step passes moments; each holds some of the parts below, and the peak is the largest moment.

    stored      P elements a rank (`sharding`): master shard, and two AdamW moments
    gradients   one master element for every stored one, from its reduce-scatter to the update
    kept        activations that wait for the backward pass: layer inputs under recomputation,
                else everything that `layer_kept` lists
    transient   what a layer holds only while it computes
    logits      compute dtype once (the caller holds them until the step ends), and three fp32
                copies around the loss: log-softmax, its gradient, the gradient of its input
    gathered    parameters made whole, all-gather buffers, inputs of a reduce-scatter

Checked against ``runner.plan_trace`` (docs/plan.md). Not in here: fragmentation, the workspace
of kernels, the device's own context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.plan import sharding
from certify.plan.layout import BYTES
from certify.plan.memory import Memory, communication_buffers, mixer_kept, norm_kept, widest

if TYPE_CHECKING:
    from certify.plan.architecture import Architecture, Layer
    from certify.plan.layout import Fsdp2Layout

_FP32 = 4
_INT64 = 8
# AdamW keeps two moments; its update makes one temporary of all elements (the square root).
_MOMENTS = 2
# fp32 copies of the logits at the peak of the loss: log-softmax, gradient, gradient of the input.
_LOSS_COPIES = 3
# Token exchanges hold rows that are sent, received and reordered at the same time.
_EXCHANGED_ROWS_FORWARD = 5
_EXCHANGED_ROWS_BACKWARD = 3
_LOCAL_ROWS_BACKWARD = 2
# Index tensors of routing: chosen expert, order, inverse order, token of a row.
_ROW_INDICES = 4


def layer_kept(layer: Layer, hidden: int, tokens: float, dtype_bytes: int) -> float:
    """Bytes of activations that one layer keeps for its backward pass.

    Norms: by the class's habits (`stock`). Mixers: `mixer_kept`, their own norms, and what stays
    because a tensor shares its storage with them. Dense MLP: gate, up, activation and product.
    Experts, on tokens x topk rows: the permuted rows, the same four of one expert, the rows that
    return; and the router's softmax in fp32.
    """
    d, habits = dtype_bytes, layer.habits
    total = layer.norms * (habits.norm_kept(hidden, d) + hidden * d)
    total -= habits.silent_norms * hidden * d
    total += layer.dropouts * hidden  # one byte of mask an element
    for mixer in layer.mixers:
        total += mixer_kept(mixer, d) + habits.norm_kept(mixer.normed, d)
        total += mixer.beside_v * d + mixer.fp32 * _FP32
    total += sum(mlp.kept for mlp in layer.mlps) * d
    if layer.moe is not None:
        rows = layer.moe.active
        each = layer.moe.mlp.kept
        if habits.expert_widths is not None:
            each = habits.expert_widths * layer.moe.mlp.ffn
        total += rows * (2 * hidden + each) * d
        total += _FP32 * hidden if habits.router_fp32 else 0
        total += hidden * d if layer.moe.shared_gate else 0
        total += _FP32 * layer.moe.experts + _ROW_INDICES * _INT64 * rows
        total += layer.moe.shared.kept * d if layer.moe.shared else 0
    return total * tokens


@dataclass(frozen=True)
class _Terms:
    """Bytes that several moments share."""

    kept: float
    final: float
    inside: float
    transient: float
    forward_transient: float
    layer_whole: float
    experts_whole: float
    next_whole: float
    head: float
    head_elements: float
    root: float
    logits: float
    gradients: float


def _terms(model: Architecture, layout: Fsdp2Layout) -> _Terms:
    d, tokens, hidden = BYTES[layout.param_dtype], layout.tokens, model.hidden
    kept = [layer_kept(layer, hidden, tokens, d) for layer in model.layers]
    big = widest(model)
    groups = {g.kind: g.whole * d for g in sharding.layer_groups(big, layout)}
    outer = {g.kind: g.whole for g in sharding.outer_groups(model, layout)}
    rows = tokens * hidden * d * (big.moe.active if big.moe else 0)
    mlp = tokens * d * max((m.ffn for m in big.mlps), default=0)
    exchanged = layout.ep > 1
    backward = _EXCHANGED_ROWS_BACKWARD if exchanged else _LOCAL_ROWS_BACKWARD
    head = outer.get("head", 0)
    shown = tokens * model.vocab * d * (2 if model.capped else 1)
    return _Terms(
        kept=len(kept) * tokens * hidden * d if layout.recompute else sum(kept),
        final=norm_kept(hidden, d) * tokens,
        inside=max(kept),
        transient=rows * backward if big.moe else 3 * mlp,
        forward_transient=rows * _EXCHANGED_ROWS_FORWARD if exchanged else 2 * mlp,
        layer_whole=sum(groups.values()),
        experts_whole=groups.get("experts", 0),
        next_whole=groups["layer"],
        head=head * d,
        head_elements=head,
        root=outer["root"] * d if model.tied else 0,
        logits=shown if layout.chunk_loss_size is None else 0,
        gradients=BYTES[layout.master_dtype] * sharding.local_elements(model, layout),
    )


@dataclass(frozen=True)
class _Moment:
    name: str
    gradients: float
    activations: float
    logits: float
    gathered: float
    temporary: float = 0

    @property
    def total(self) -> float:
        return self.gradients + self.activations + self.logits + self.gathered + self.temporary


def _loss_moments(model: Architecture, layout: Fsdp2Layout, t: _Terms) -> list[_Moment]:
    """The loss itself, and the backward pass of the head."""
    r = BYTES[layout.reduce_dtype]
    positions = min(layout.chunk_loss_size or layout.seq_length, layout.seq_length)
    shown = positions * layout.micro_batch * model.vocab
    copies = _LOSS_COPIES * _FP32 * shown
    # Parameter, its gradient, and the input of the reduce-scatter, while the next group arrives.
    reduced = 2 * t.head + r * t.head_elements + t.next_whole + 2 * t.root
    kept = t.kept + t.final
    if layout.chunk_loss_size is None:
        return [
            _Moment("loss", 0, kept, t.logits + copies, 0),
            _Moment("head", 0, kept, 2 * t.logits, reduced),
        ]
    # The head stays whole over all chunks, with the sum of its gradients so far.
    whole = 2 * t.head + t.next_whole + 2 * t.root
    return [_Moment("loss", 0, kept, copies, whole), _Moment("head", 0, kept, 0, reduced)]


def _backward_moments(model: Architecture, layout: Fsdp2Layout, t: _Terms) -> list[_Moment]:
    """The layers: the last one first, the second (all but its own gradients are there, and a
    layer is gathered ahead), and the first."""
    d, r = BYTES[layout.param_dtype], BYTES[layout.reduce_dtype]
    residual = layout.tokens * model.hidden * d
    # The gradient of the residual stream, and a copy of it.
    inside = t.inside + t.transient + 2 * residual
    embedding = model.vocab * model.hidden
    before = t.next_whole if layout.ep > 1 else t.layer_whole
    tied = 2 * t.root  # the parameter and its whole gradient
    waiting = sum(g.local for g in sharding.layer_groups(model.layers[0], layout))
    waiting += 0 if model.tied else embedding // layout.fsdp
    second = t.gradients - BYTES[layout.master_dtype] * waiting
    one_kept = residual if layout.recompute else t.inside
    own = inside if layout.recompute else t.transient + 2 * residual
    return [
        _Moment("backward of the last layer", 0, t.kept + own, t.logits,
                t.layer_whole + t.next_whole + r * t.head_elements + tied),
        _Moment("backward of the second layer", second, inside + one_kept, t.logits,
                t.layer_whole + before + r / d * before + tied),
        _Moment("backward of the first layer", t.gradients, inside, t.logits,
                t.layer_whole + (0 if model.tied else d * embedding) + r / d * before + tied),
    ]  # fmt: skip


def _moments(model: Architecture, layout: Fsdp2Layout) -> list[_Moment]:
    t = _terms(model, layout)
    r, d = BYTES[layout.reduce_dtype], BYTES[layout.param_dtype]
    gathered = 2 * (t.experts_whole or t.layer_whole) + t.root
    return [
        _Moment("forward", 0, t.kept + t.forward_transient, 0, gathered),
        _Moment("forward of the head", 0, t.kept + t.final, t.logits, 2 * t.head + t.root),
        *_loss_moments(model, layout, t),
        *_backward_moments(model, layout, t),
        _Moment("embedding", t.gradients, 0, t.logits, (d + r) * model.vocab * model.hidden),
        _Moment("update", t.gradients, 0, 0, 0, temporary=t.gradients),
    ]


def communicators(layout: Fsdp2Layout) -> int:
    """Process groups of a rank that communicate: the world, and each dimension above 1."""
    sizes = [layout.replicate, layout.ep, layout.ep_fsdp if layout.ep > 1 else 1]
    return 2 + sum(size > 1 for size in sizes)


def memory(model: Architecture, layout: Fsdp2Layout, buffsize_mib: int | None = None) -> Memory:
    """The peak of a step on rank 0. buffsize_mib: HCCL_BUFFSIZE where the recipe sets it."""
    stored = BYTES[layout.master_dtype] * sharding.local_elements(model, layout)
    moments = _moments(model, layout)
    worst = max(moments, key=lambda m: m.total)
    # Ranks that accumulate over micro-batches hold their gradients from the first one on.
    held = stored if layout.grad_accumulation > 1 else 0.0
    options = {} if buffsize_mib is None else {"buffsize_mib": buffsize_mib}
    fixed = stored * (1 + _MOMENTS)
    return Memory(
        parameters=stored,
        gradients=max(worst.gradients, held),
        optimizer=stored * _MOMENTS + worst.temporary,
        activations=worst.activations,
        logits=worst.logits,
        gathered=worst.gathered,
        communication=communication_buffers(communicators(layout), **options),
        at=worst.name,
        moments={m.name: m.total + fixed for m in moments},
    )
