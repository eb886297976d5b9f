"""Which layers a pipeline rank holds, and how many micro-batches are in flight there.

Megatron-LM counts layers with those that do nothing (noop), cuts them into pp x virtual chunks in
order, and gives chunk c to rank c mod pp. DualPipeV (DeepSeek, github.com/deepseek-ai/DualPipe)
folds the pipeline: rank r holds chunks r and 2 pp - 1 - r.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certify.plan.architecture import Architecture, Layer, Weight
    from certify.plan.layout import McoreLayout


@dataclass(frozen=True)
class Stage:
    """One pipeline rank: its chunks of layers, and the weights outside layers that it holds."""

    rank: int
    chunks: tuple[tuple[Layer, ...], ...]
    outer: tuple[Weight, ...]
    has_head: bool


def _with_noops(model: Architecture, layout: McoreLayout) -> list[Layer | None]:
    """The layers by Megatron's index, None where nothing is done."""
    depth = len(model.layers) + len(layout.noop_layers)
    rest = iter(model.layers)
    return [None if i in layout.noop_layers else next(rest) for i in range(depth)]


def _chunks(model: Architecture, layout: McoreLayout) -> list[tuple[Layer, ...]]:
    """All chunks in the order of the depth; a remainder goes to the first ones."""
    layers = _with_noops(model, layout)
    count = layout.pp * chunks_per_rank(layout)
    sizes = list(layout.stage_layers)
    if len(sizes) != count:
        even, more = divmod(len(layers), count)
        sizes = [even + (i < more) for i in range(count)]
    found, start = [], 0
    for size in sizes:
        part = layers[start : start + size]
        found.append(tuple(layer for layer in part if layer is not None))
        start += size
    return found


def chunks_per_rank(layout: McoreLayout) -> int:
    """Chunks of layers that one pipeline rank holds."""
    return 2 if layout.schedule == "dualpipev" else layout.virtual


def _owner(layout: McoreLayout, chunk: int) -> int:
    """The pipeline rank of a chunk, counted along the depth."""
    if layout.schedule == "dualpipev":
        return min(chunk, 2 * layout.pp - 1 - chunk)
    return chunk % layout.pp


def owner_of_head(layout: McoreLayout) -> int:
    """The pipeline rank of the last chunk."""
    return _owner(layout, layout.pp * chunks_per_rank(layout) - 1)


def sends_of(layout: McoreLayout, rank: int) -> int:
    """Messages that a pipeline rank sends for one micro-batch: activations to the next chunk and
    gradients to the one before, where these lie on another rank."""
    count = layout.pp * chunks_per_rank(layout)
    own = [chunk for chunk in range(count) if _owner(layout, chunk) == rank]
    return sum(
        0 <= other < count and _owner(layout, other) != rank
        for chunk in own
        for other in (chunk + 1, chunk - 1)
    )


def stages_of(model: Architecture, layout: McoreLayout) -> list[Stage]:
    """All pipeline ranks. Embedding on the first chunk's rank; head, final norm, layers of
    multi-token prediction (and a second embedding when tied or for them) on the last chunk's."""
    chunks = _chunks(model, layout)
    pp, folded = layout.pp, layout.schedule == "dualpipev"
    last_rank = 0 if folded else pp - 1
    found = []
    for rank in range(pp):
        own = [rank, 2 * pp - 1 - rank] if folded else list(range(rank, len(chunks), pp))
        held = [chunks[i] for i in own]
        is_first, is_last = rank == 0, rank == last_rank
        outer = [w for w in model.outer if w.part == "embedding"] if is_first else []
        if is_last:
            held[-1] = (*held[-1], *model.mtp)
            outer += [w for w in model.outer if w.part in ("head", "norm")]
            if not is_first and (model.tied or model.mtp):
                outer += [w for w in model.outer if w.part == "embedding"]
        found.append(Stage(rank, tuple(held), tuple(outer), is_last))
    return found


def in_flight(layout: McoreLayout, rank: int) -> tuple[float, ...]:
    """Micro-batches whose activations each chunk of a rank holds at the peak.

    1F1B: the last rank one, each rank before it one more: pp - rank. Interleaved: a rank runs
    2 (pp - rank - 1) + (virtual - 1) pp forward chunks before its first backward one (Megatron-LM
    schedules, warm-up) and one more in the steady state; they fill its chunks from the first one
    in turns of pp. DualPipeV: pp + 1 stages' worth, half a stage a chunk. Never more than there are
    micro-batches.
    """
    most = layout.grad_accumulation
    if layout.schedule == "dualpipev":
        return (min(float(most), layout.pp + 1.0),) * 2
    if layout.virtual == 1:
        return (float(min(most, layout.pp - rank)),)
    pp, virtual = layout.pp, layout.virtual
    running = min(2 * (pp - rank - 1) + (virtual - 1) * pp + 1, most * virtual)
    turns, more = divmod(running, pp * virtual)
    found = []
    for chunk in range(virtual):
        extra = min(max(more - chunk * pp, 0), pp)
        found.append(float(min(most, turns * pp + extra)))
    return tuple(found)


def bubble(layout: McoreLayout) -> float:
    """Idle time of the pipeline as a share of the time in which all ranks compute:
    (pp - 1) / (micro-batches x virtual) (arXiv 2104.04473, section 2.2.2); DualPipeV about half
    of 1F1B's."""
    if layout.pp == 1:
        return 0.0
    return (layout.pp - 1) / (layout.grad_accumulation * chunks_per_rank(layout))
