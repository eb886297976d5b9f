"""Rules of the parallel layout (Megatron-style scripts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.recipes.lint.context import Context, Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

_RING = ("megatron_cp_algo", "kvallgather_cp_algo")
_COUNTED = ("parallel.tp", "parallel.pp", "parallel.cp", "parallel.ep", "parallel.etp")
_OPTIMIZER_OPTIONS = ("reuse-fp32-param", "swap-optimizer")


def _sizes(c: Context) -> tuple[int, int, int, int, int | None]:
    tp, pp, cp, ep = (c.number(f"parallel.{name}") for name in ("tp", "pp", "cp", "ep"))
    return tp, pp, cp, ep, c.get("cluster.world_size")


def world(c: Context) -> Iterator[Hit]:
    """P01, P02, P07, P08, P24: do the ranks multiply to the world, the batch to the ranks?"""
    for key, value in c.below_one((*_COUNTED, "batch.micro", "batch.global")):
        yield Hit("P24", str(value), key)
    tp, pp, cp, ep, ranks = _sizes(c)
    if ranks and ranks % (tp * pp * cp):
        found = f"world {ranks}, TP{tp} x PP{pp} x CP{cp} = {tp * pp * cp}"
        yield Hit("P01", found, "parallel.pp")
    micro, whole = c.get("batch.micro"), c.get("batch.global")
    if ranks and micro and whole and micro > 0 and ranks % (tp * pp * cp) == 0:
        dp = ranks // (tp * pp * cp)
        if whole % (micro * dp):
            yield Hit("P02", f"global batch {whole}, micro {micro} x DP {dp}", "batch.global")
    if not c.moe:
        return
    extend = bool(c.get("parallel.moe_tp_extend_ep"))
    experts, over = c.number("moe.experts"), ep * tp if extend else ep
    if experts % over:
        yield Hit("P07", f"{experts} experts over {over} ranks", "moe.experts")
    etp = c.get("parallel.etp") or tp
    if ranks and not extend and ranks % (etp * ep * pp):
        yield Hit("P08", f"world {ranks}, ETP{etp} x EP{ep} x PP{pp}", "parallel.ep")


def pipeline(c: Context) -> Iterator[Hit]:
    """P03, P04, P15, P16, P21, P23: layers over stages."""
    _, pp, _, _, _ = _sizes(c)
    layers, listed = c.get("model.layers"), c.get("parallel.num_layer_list")
    per_virtual = c.get("parallel.layers_per_virtual_stage")
    if layers and listed:
        stages = [int(part) for part in listed.split(",") if part.strip().isdigit()]
        if len(stages) != pp or sum(stages) != layers or per_virtual:
            found = f"{len(stages)} stages, {sum(stages)} layers; PP {pp}, layers {layers}"
            yield Hit("P15", found, "parallel.num_layer_list")
        if c.get("parallel.noop_layers"):
            yield Hit("P16", f"list {listed}", "parallel.num_layer_list")
    elif layers and layers % pp:
        yield Hit("P03", f"{layers} layers, PP {pp}", "model.layers")
    if layers and per_virtual and not listed and layers % pp == 0:
        if (layers // pp) % per_virtual or pp == 1:
            found = f"{layers} layers, PP {pp}, {per_virtual} a virtual stage"
            yield Hit("P04", found, "parallel.layers_per_virtual_stage")
        elif layers // pp == per_virtual and c.get("parallel.schedule") != "dualpipev":
            found = f"{layers} layers = PP {pp} x {per_virtual}"
            yield Hit("P23", found, "parallel.layers_per_virtual_stage")
    recomputed = c.get("parallel.recompute.num_layers")
    if layers and recomputed and not listed and recomputed > layers / pp:
        found = f"{recomputed} layers to recompute, {layers // pp} a rank"
        yield Hit("P21", found, "parallel.recompute.num_layers")


def tensor(c: Context) -> Iterator[Hit]:
    """P05, P06, P09, P10, P12, P17, P22: what tensor parallelism cuts."""
    tp, _, _, ep, _ = _sizes(c)
    heads, groups, hidden = c.get("model.heads"), c.get("model.kv_heads"), c.get("model.hidden")
    if heads and heads % tp:
        yield Hit("P05", f"{heads} heads, TP {tp}", "model.heads")
    if groups and groups % tp:
        yield Hit("P06", f"{groups} query groups, TP {tp}", "model.kv_heads")
    if heads and hidden and hidden % heads and not c.get("model.head_dim") and not c.get("mla"):
        yield Hit("P12", f"hidden {hidden}, {heads} heads", "model.hidden")
    for key in ("model.vocab_padded", "model.ffn"):
        value = c.get(key)
        if value and value % tp:
            yield Hit("P17", f"{key.partition('.')[2]} {value}, TP {tp}", key)
    if c.get("parallel.sequence_parallel") and tp == 1:
        yield Hit("P10", "TP 1", "parallel.sequence_parallel")
    if c.moe and tp > 1:
        if not c.get("parallel.sequence_parallel"):
            yield Hit("P09", f"TP {tp}", "parallel.tp")
        extend = c.get("parallel.moe_tp_extend_ep")
        if ep > 1 and c.get("parallel.etp") is None and not extend:
            yield Hit("P22", f"TP {tp}, EP {ep}", "parallel.ep")


def context(c: Context) -> Iterator[Hit]:
    """P11, P18, P19: context parallelism."""
    tp, _, cp, _, _ = _sizes(c)
    algorithm, degree = c.get("parallel.cp_algo"), c.get("parallel.ulysses_degree_in_cp")
    if cp == 1:
        if degree and degree > 1:
            yield Hit("P18", f"Ulysses degree {degree} with CP 1", "parallel.ulysses_degree_in_cp")
        return
    seq, heads = c.get("training.seq_length"), c.get("model.heads")
    if algorithm is None:
        yield Hit("P18", f"CP {cp} without an algorithm: megatron_cp_algo", "parallel.cp")
    ring = algorithm is None or algorithm in _RING or algorithm == "hybrid_cp_algo"
    packed = algorithm == "kvallgather_cp_algo" and c.has("reset-attention-mask")
    if seq and ring and seq % (cp if packed else 2 * cp):
        yield Hit("P11", f"sequence {seq}, CP {cp}", "training.seq_length")
    if seq and algorithm == "ulysses_cp_algo" and seq % cp:
        yield Hit("P11", f"sequence {seq}, CP {cp}", "training.seq_length")
    if heads and algorithm == "ulysses_cp_algo" and heads % (tp * cp):
        yield Hit("P11", f"{heads} heads, TP {tp} x CP {cp}", "parallel.cp")
    if algorithm == "hybrid_cp_algo":
        if not degree or cp % degree or cp // degree < 2:
            yield Hit("P19", f"CP {cp}, Ulysses degree {degree}", "parallel.cp_algo")
        elif heads and heads % (degree * tp):
            yield Hit("P19", f"{heads} heads, degree {degree} x TP {tp}", "parallel.cp_algo")


def schedule(c: Context) -> Iterator[Hit]:
    """P13, P14, T13: micro-batches against the pipeline schedule."""
    _, pp, _, _, _ = _sizes(c)
    count = c.get("batch.grad_accumulation")
    if not count or pp == 1:
        return
    interleaved = c.get("parallel.layers_per_virtual_stage") is not None
    dual = c.get("parallel.schedule") == "dualpipev"
    needed = 2 * pp if dual else pp if interleaved else 1
    if count < needed:
        yield Hit("P13", f"{count} micro-batches, {needed} needed", "batch.global")
    elif interleaved and count % pp:
        yield Hit("P14", f"{count} micro-batches, PP {pp}", "batch.global")
    if count == 1:
        yield Hit("T13", f"PP {pp}", "batch.global")


def optimizer(c: Context) -> Iterator[Hit]:
    """P20: options that only the distributed optimizer has."""
    if not c.get("parallel.distributed_optimizer"):
        for option in _OPTIMIZER_OPTIONS:
            if c.has(option):
                yield Hit("P20", f"--{option}", "parallel.distributed_optimizer")


CHECKS = (world, pipeline, tensor, context, schedule, optimizer)
