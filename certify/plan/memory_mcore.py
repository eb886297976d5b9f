"""Device memory of a training step under Megatron-Core, by pipeline stage.

    parameters  2 bytes (bf16) of the stage's weights
    gradients   4 bytes (fp32 main gradients, accumulated over micro-batches)
    optimizer   12 bytes (fp32 master, two moments), divided over the data-parallel ranks by the
                distributed optimizer: 18 or 6 + 12 / d bytes a parameter in all (Megatron-LM,
                docs on the distributed optimizer: bf16 parameters, fp32 gradients)
    activations what one micro-batch keeps in a layer, times the micro-batches in flight
    logits      on the last stage: compute dtype, and two fp32 copies of the vocabulary's part

Activations follow Korthikanti et al. (arXiv 2205.05198) with a fused attention and gated MLPs,
and expert rows added. With t tokens of a micro-batch on a rank, tensor parallelism divides what
lies inside attention and MLP; sequence parallelism divides the rest too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.plan.layout import BYTES
from certify.plan.memory import Memory, communication_buffers
from certify.plan.pipeline import Stage, in_flight, stages_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.plan.architecture import Architecture, Layer, Moe, Weight
    from certify.plan.layout import McoreLayout

_FP32 = 4
_GRADIENT = 4
_MASTER = 4
_MOMENTS = 8
# MindSpeed reuse-fp32-param keeps bf16 parameter + 16-bit residue where the master was.
_RESIDUE = 2
# MindSpeed swap-optimizer: the share of the states on the device while it updates (1 / times;
# its argument swap-optimizer-times defaults to 16).
_SWAP_SHARE = 1 / 16
# Vocabulary-parallel cross-entropy: fp32 logits and their exponentials.
_LOSS_COPIES = 2
_INT64 = 8


def rank_elements(weights: Iterable[Weight], layout: McoreLayout) -> tuple[float, float]:
    """(dense, expert) elements of these weights on one rank of a stage.

    A tensor-parallel dimension is divided over tp, of experts over etp; experts over ep.
    """
    dense = expert = 0.0
    for weight in weights:
        if weight.part == "expert":
            split = layout.expert_tp if weight.tp is not None else 1
            expert += weight.numel / layout.ep / split
        else:
            dense += weight.numel / (layout.tp if weight.tp is not None else 1)
    return dense, expert


def layer_kept(layer: Layer, hidden: int, layout: McoreLayout) -> float:
    """Bytes that one micro-batch keeps in one layer without recomputation.

    Norms: input and result (d bytes each), divided under sequence parallelism. Mixer: q, k, v and
    result of the fused kernel, a log-sum-exp a head, inputs of its own norms; divided by tp, as
    is the MLP: what the activation reads, and its result. Experts: see `_moe_kept`.
    """
    d, tp, share = BYTES[layout.param_dtype], layout.tp, layout.residual_share
    total = layer.norms * 2 * hidden * d / share
    for m in layer.mixers:
        inner = (m.q + m.k + m.v + m.out + m.normed) * d + _FP32 * m.heads
        total += inner / tp + m.other * d / share
    # A fused gated activation keeps its two inputs; its result is kept by the projection after it.
    saved = 2 if layout.recompute.activation else 1
    total += sum(mlp.kept - saved * mlp.ffn for mlp in layer.mlps) * d / tp
    if layer.moe is not None:
        total += _moe_kept(layer.moe, hidden, layout)
    return total * layout.tokens


def _moe_kept(moe: Moe, hidden: int, layout: McoreLayout) -> float:
    """Bytes a token of `layer_kept` for router, experts and shared expert.

    An expert that is divided over etp ranks sees the rows of all of them, each of its own width.
    """
    d, share, etp = BYTES[layout.param_dtype], layout.residual_share, layout.expert_tp
    saved = 2 if layout.recompute.activation else 1
    rows = moe.active * (etp / layout.tp if share > 1 else 1)
    inside = (moe.mlp.kept - saved * moe.mlp.ffn) / etp
    total = rows * ((hidden + inside) * d + 2 * _INT64)  # rows of the experts, and their order
    total += moe.active * hidden * d / share  # rows that return, weighted by the router
    total += 2 * _FP32 * moe.experts / share
    if moe.shared is not None:
        total += (moe.shared.kept - saved * moe.shared.ffn) * d / layout.tp
    return total


@dataclass(frozen=True)
class StageMemory:
    """Bytes of one pipeline stage, by part; recomputing: what one group holds while its forward
    pass runs again (within activations)."""

    stage: int
    parameters: float
    gradients: float
    optimizer: float
    activations: float
    recomputing: float
    logits: float

    @property
    def total(self) -> float:
        """All parts."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.logits


def _chunk_activations(
    layers: tuple[Layer, ...], model: Architecture, layout: McoreLayout, recomputed: int
) -> tuple[float, float]:
    """(bytes kept by one micro-batch in one chunk, bytes of the group that is computed again)."""
    d = BYTES[layout.param_dtype]
    r = layout.recompute
    one_input = model.hidden * d / layout.residual_share * layout.tokens
    kept = [layer_kept(layer, model.hidden, layout) for layer in layers]
    if r.granularity != "full" or not kept:
        return sum(kept), 0.0
    if r.method == "uniform":
        groups = -(-len(layers) // r.layers)
        return groups * one_input, max(kept) * r.layers
    return recomputed * one_input + sum(kept[recomputed:]), max(kept) if recomputed else 0.0


def _activations(stage: Stage, model: Architecture, layout: McoreLayout) -> tuple[float, float]:
    """(kept over all micro-batches in flight, the group computed again)."""
    flying = in_flight(layout, stage.rank)
    left = layout.recompute.layers
    total = again = 0.0
    for chunk, micro_batches in zip(stage.chunks, flying, strict=True):
        here = min(len(chunk), left)
        if layout.recompute.per_rank:
            left -= here
        kept, group = _chunk_activations(chunk, model, layout, here)
        total += kept * micro_batches
        again = max(again, group)
    return total, again


def optimizer_bytes(dense: float, expert: float, layout: McoreLayout) -> float:
    """Master weights and moments of one rank, with MindSpeed's two ways of saving them."""
    each = (_RESIDUE if layout.reuse_fp32 else _MASTER) + _MOMENTS
    if layout.distributed_optimizer:
        dense, expert = dense / (layout.dp * layout.cp), expert / layout.expert_dp
    return (dense + expert) * each * (_SWAP_SHARE if layout.swap_optimizer else 1)


def stage_memory(stage: Stage, model: Architecture, layout: McoreLayout) -> StageMemory:
    """Bytes of one rank of one stage."""
    weights = [w for chunk in stage.chunks for layer in chunk for w in layer.weights]
    dense, expert = rank_elements((*weights, *stage.outer), layout)
    kept, again = _activations(stage, model, layout)
    d, logits = BYTES[layout.param_dtype], 0.0
    if stage.has_head:
        shown = layout.tokens * model.vocab / layout.tp
        logits = (d + _LOSS_COPIES * _FP32) * shown * (1 + len(model.mtp))
    return StageMemory(
        stage=stage.rank,
        parameters=d * (dense + expert),
        gradients=_GRADIENT * (dense + expert),
        optimizer=optimizer_bytes(dense, expert, layout),
        activations=kept + again,
        recomputing=again,
        logits=logits,
    )


def communicators(layout: McoreLayout) -> int:
    """Process groups of a rank that communicate: the world, each dimension above 1, data parallel
    with and without context parallel, and those of experts."""
    sizes = [layout.tp, layout.pp, layout.cp, layout.dp, layout.dp * layout.cp, layout.ep]
    if layout.ep > 1:
        sizes += [layout.expert_dp, layout.ep * layout.expert_tp]
    return 1 + sum(size > 1 for size in sizes)


def memory(model: Architecture, layout: McoreLayout, buffsize_mib: int | None = None) -> Memory:
    """The fullest stage. buffsize_mib: HCCL_BUFFSIZE where the recipe sets it."""
    stages = [stage_memory(stage, model, layout) for stage in stages_of(model, layout)]
    worst = max(stages, key=lambda s: s.total)
    options = {} if buffsize_mib is None else {"buffsize_mib": buffsize_mib}
    return Memory(
        parameters=worst.parameters,
        gradients=worst.gradients,
        optimizer=worst.optimizer,
        activations=worst.activations,
        logits=worst.logits,
        gathered=0.0,
        communication=communication_buffers(communicators(layout), **options),
        at=f"pipeline rank {worst.stage}",
        moments={f"pipeline rank {s.stage}": s.total for s in stages},
        stage=worst.stage,
    )
