"""Bytes that collectives move in one step, seen from one rank.

payload: the gathered tensor of an all-gather, the tensor before reduction of a reduce-scatter or
all-reduce, what one rank sends in an all-to-all or to its neighbour. within and across: bytes that
pass one device inside its node and through its link to other nodes, by an algorithm that fits
the topology. With n ranks, g of them on a node:

    all-gather, reduce-scatter   within (g - 1) / g, across (n - g) / (n g): a node takes in what
                                 it lacks once, shared by its g devices, and spreads it inside
    all-reduce                   twice that
    all-to-all                   within (g - 1) / n, across (n - g) / n: nothing can be shared
    send                         all of it: across as soon as the group leaves the node
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.plan import sharding
from certify.plan.layout import BYTES
from certify.plan.memory_mcore import rank_elements
from certify.plan.pipeline import owner_of_head, sends_of, stages_of

if TYPE_CHECKING:
    from certify.plan.architecture import Architecture, Layer
    from certify.plan.layout import Cluster, Fsdp2Layout, McoreLayout
    from certify.plan.pipeline import Stage

_INT64 = 8
_GRADIENT = 4
_FP32 = 4
# Vocabulary-parallel cross-entropy: maximum, logit of the label, sum of exponentials.
_LOSS_SUMS = 3


@dataclass(frozen=True)
class Collective:
    """One kind of traffic of a step. group: fsdp, ep, tp, ...; ranks: of the group; calls and
    payload: of one rank and step, payload in bytes; within, across: bytes (see the module)."""

    kind: str
    group: str
    ranks: int
    calls: float
    payload: float
    within: float
    across: float
    why: str


def on_node(ranks: int, stride: int, npus_per_node: int) -> int:
    """Ranks of a group on one node, for a group of every stride-th rank."""
    return max(1, min(ranks, npus_per_node // stride if stride <= npus_per_node else 1))


def collective(
    kind: str, group: str, ranks: int, stride: int, cluster: Cluster, calls: float, payload: float,
    why: str,
) -> Collective:  # fmt: skip
    """The traffic of a group of every stride-th rank."""
    g = on_node(ranks, stride, cluster.npus_per_node)
    if kind == "send":
        # A ring or a pipeline is as slow as its slowest hop: that of a rank at a node's border.
        within, across = (1.0, 0.0) if g == ranks else (0.0, 1.0)
    elif kind == "all_to_all":
        within, across = (g - 1) / ranks, (ranks - g) / ranks
    else:
        times = 2 if kind == "all_reduce" else 1
        within, across = times * (g - 1) / g, times * (ranks - g) / (ranks * g)
    return Collective(kind, group, ranks, calls, payload, payload * within, payload * across, why)


def fsdp2(model: Architecture, layout: Fsdp2Layout, cluster: Cluster) -> list[Collective]:
    """Collectives of one step: every group is gathered for the forward and for the backward pass
    and reduced after it, once a micro-batch; tokens travel to their experts and back, forward,
    backward, and again where the forward is recomputed."""
    d, r = BYTES[layout.param_dtype], BYTES[layout.reduce_dtype]
    steps = layout.grad_accumulation
    groups = sharding.all_groups(model, layout)
    found = []
    for name, own, stride in (
        ("fsdp", [g for g in groups if g.kind != "experts"], 1),
        ("ep_fsdp", [g for g in groups if g.kind == "experts"], layout.ep),
    ):
        if not own or own[0].ranks == 1:
            continue
        whole, calls, n = sum(g.whole for g in own), len(own) * steps, own[0].ranks
        where = (name, n, stride, cluster)
        found += [
            collective("all_gather", *where, 2 * calls, 2 * d * whole * steps, "parameters"),
            collective("reduce_scatter", *where, calls, r * whole * steps, "gradients"),
        ]
    if layout.replicate > 1:
        local = sum(g.local for g in groups)
        found.append(
            collective(
                "all_reduce",
                "replicate",
                layout.replicate,
                layout.fsdp,
                cluster,
                len(groups) * steps,
                r * local * steps,
                "gradients",
            )
        )
    return found + _exchanges(model, layout, cluster)


def _exchanges(model: Architecture, layout: Fsdp2Layout, cluster: Cluster) -> list[Collective]:
    if layout.ep == 1:
        return []
    passes = 3 if layout.recompute else 2  # forward, backward, recomputed forward
    counts = 2 if layout.recompute else 1
    payload = calls = 0.0
    for layer in model.layers:
        if layer.moe is None:
            continue
        rows = layout.tokens * layer.moe.active
        payload += 2 * passes * rows * model.hidden * BYTES[layout.param_dtype]
        payload += counts * layer.moe.experts * _INT64
        calls += 2 * passes + counts
    steps = layout.grad_accumulation
    return [
        collective(
            "all_to_all",
            "ep",
            layout.ep,
            1,
            cluster,
            calls * steps,
            payload * steps,
            "tokens to experts and back",
        )
    ]


def mcore(
    model: Architecture, layout: McoreLayout, cluster: Cluster, stage: int
) -> list[Collective]:
    """Collectives of one step of a rank of this pipeline stage, Megatron's rank order: tensor
    parallel innermost, then context, data and pipeline parallel."""
    own = stages_of(model, layout)[stage]
    layers = [layer for chunk in own.chunks for layer in chunk]
    dense, expert = rank_elements(
        [*(w for layer in layers for w in layer.weights), *own.outer], layout
    )
    found = _gradients(layout, cluster, dense, expert)
    found += _tensor(model, layout, cluster, own, layers)
    found += _context(layout, cluster, layers)
    found += _experts(model, layout, cluster, layers)
    if layout.pp > 1:
        d, steps = BYTES[layout.param_dtype], layout.grad_accumulation
        residual = layout.tokens * model.hidden * d / layout.residual_share
        calls = steps * sends_of(layout, stage)
        found.append(
            collective(
                "send",
                "pp",
                layout.pp,
                layout.world_size // layout.pp,
                cluster,
                calls,
                calls * residual,
                "activations and their gradients",
            )
        )
        ends = own.has_head or stage == 0
        if model.tied and ends and owner_of_head(layout) != 0:
            # Embedding and head are one tensor on two stages: their gradients are added.
            size = _GRADIENT * model.vocab * model.hidden / layout.tp
            stride = layout.world_size // layout.pp * owner_of_head(layout)
            words = ("all_reduce", "embedding", 2, stride, cluster, 1, size)
            found.append(collective(*words, "gradients of the tied embedding"))
    return found


def _gradients(
    layout: McoreLayout, cluster: Cluster, dense: float, expert: float
) -> list[Collective]:
    """fp32 gradients over the ranks that hold the same weights; with the distributed optimizer
    a reduce-scatter of them and an all-gather of the bf16 parameters."""
    d = BYTES[layout.param_dtype]
    found = []
    for group, ranks, stride, elements in (
        ("dp-cp", layout.dp * layout.cp, layout.tp, dense),
        ("expert-dp", layout.expert_dp, layout.expert_tp * layout.ep, expert),
    ):
        if ranks == 1 or not elements:
            continue
        where = (group, ranks, stride, cluster, 1)
        if layout.distributed_optimizer:
            found += [
                collective("reduce_scatter", *where, _GRADIENT * elements, "gradients"),
                collective("all_gather", *where, d * elements, "parameters"),
            ]
        else:
            found.append(collective("all_reduce", *where, _GRADIENT * elements, "gradients"))
    return found


def _passes(layout: McoreLayout) -> int:
    """Forward, backward, and the forward again where layers are recomputed."""
    return 3 if layout.recompute.granularity == "full" else 2


def _tensor(
    model: Architecture, layout: McoreLayout, cluster: Cluster, own: Stage, layers: list[Layer]
) -> list[Collective]:
    """Two regions a layer (each mixer, each MLP). Sequence parallel: an all-gather before and a
    reduce-scatter after each, and one more all-gather in the backward pass, which gathers the
    input again for the weights' gradient; without it an all-reduce each way. The embedding adds
    its end of a region, the head its beginning, and the cross-entropy three sums a token."""
    if layout.tp == 1:
        return []
    steps, d = layout.grad_accumulation, BYTES[layout.param_dtype]
    regions = 0
    for layer in layers:
        shared = layer.moe is not None and layer.moe.shared is not None
        regions += len(layer.mixers) + len(layer.mlps) + shared
        if layer.moe is not None and layout.expert_tp > 1:
            regions += 1
    size = layout.tokens * model.hidden * d
    passes = _passes(layout)
    where = ("tp", layout.tp, 1, cluster)
    embeddings = int(own.rank == 0)
    heads = (1 + len(model.mtp)) * own.has_head
    sums = _LOSS_SUMS * heads * steps
    found = []
    if not layout.sequence_parallel:
        calls = (regions * passes + embeddings + heads) * steps
        found = [collective("all_reduce", *where, calls, calls * size, "activations")]
    else:
        gathers = (regions * (passes + 1) + embeddings + 2 * heads) * steps
        scatters = (regions * passes + embeddings + heads) * steps
        found = [
            collective("all_gather", *where, gathers, gathers * size, "activations"),
            collective("reduce_scatter", *where, scatters, scatters * size, "activations"),
        ]
    if sums:
        payload = sums * layout.tokens * _FP32
        found.append(collective("all_reduce", *where, sums, payload, "sums of the loss"))
    return found


def _context(layout: McoreLayout, cluster: Cluster, layers: list[Layer]) -> list[Collective]:
    """Ring attention: keys and values of a rank visit the cp - 1 others, in the backward pass
    with their gradients. (Ulysses exchanges heads instead: fewer bytes, not told apart.)"""
    if layout.cp == 1:
        return []
    steps, d = layout.grad_accumulation, BYTES[layout.param_dtype]
    width = sum(m.k + m.v for layer in layers for m in layer.mixers if m.heads) / layout.tp
    turns = _passes(layout) + 1  # the backward pass sends tensors and gradients
    calls = turns * (layout.cp - 1) * steps * len(layers)
    payload = turns * (layout.cp - 1) * steps * width * layout.tokens * d
    return [
        collective("send", "cp", layout.cp, layout.tp, cluster, calls, payload, "keys and values")
    ]


def _experts(
    model: Architecture, layout: McoreLayout, cluster: Cluster, layers: list[Layer]
) -> list[Collective]:
    """Rows to their experts and back, each pass."""
    if layout.ep == 1:
        return []
    steps, d, passes = layout.grad_accumulation, BYTES[layout.param_dtype], _passes(layout)
    payload = calls = 0.0
    for layer in layers:
        if layer.moe is None:
            continue
        rows = layout.tokens / layout.residual_share * layer.moe.active
        payload += 2 * passes * rows * model.hidden * d * steps
        calls += 2 * passes * steps
    return [
        collective(
            "all_to_all",
            "ep",
            layout.ep,
            layout.expert_tp,
            cluster,
            calls,
            payload,
            "tokens to experts and back",
        )
    ]
