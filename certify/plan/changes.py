"""Which single change of a layout helps most.

A plan that does not fit needs memory: the change that saves most comes first. One that fits, with
speeds given, is asked for time: the change that saves most seconds and still fits comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from certify.plan.layout import Fsdp2Layout, McoreLayout, Recompute
from certify.plan.make import Plan, Setting, make, problems, step_cost_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.plan.layout import Layout

# Positions of a sample whose logits exist at one time, in upstream's recipes that chunk the loss.
_CHUNK = 1024
_FULL = Recompute("full", "uniform", 1)


@dataclass(frozen=True)
class Change:
    """what: in words; saved: bytes less than before; faster_s: seconds less (`step_cost_s`), None
    without speeds; plan: of the changed layout."""

    what: str
    saved: float
    faster_s: float | None
    plan: Plan


def _fsdp2(layout: Fsdp2Layout) -> Iterator[tuple[str, Layout]]:
    what = "keep activations" if layout.recompute else "recompute every layer"
    yield what, replace(layout, recompute=not layout.recompute)
    if layout.grad_accumulation % 2 == 0:
        more, less = layout.micro_batch * 2, layout.grad_accumulation // 2
        yield f"micro-batch {more}", replace(layout, micro_batch=more, grad_accumulation=less)
    if layout.chunk_loss_size is None and layout.seq_length > _CHUNK:
        yield f"chunk_loss_size {_CHUNK}", replace(layout, chunk_loss_size=_CHUNK)
    if layout.micro_batch > 1:
        half = layout.micro_batch // 2
        more = layout.grad_accumulation * layout.micro_batch // half
        yield f"micro-batch {half}", replace(layout, micro_batch=half, grad_accumulation=more)
    if layout.reduce_dtype == "fp32":
        yield "reduce_dtype bf16 (less exact)", replace(layout, reduce_dtype="bf16")
    for ep in (layout.ep * 2, layout.ep // 2):
        if ep >= 1 and layout.fsdp % ep == 0:
            yield f"ep {ep}", replace(layout, ep=ep, ep_fsdp=layout.fsdp // ep)


def _mcore(layout: McoreLayout) -> Iterator[tuple[str, Layout]]:
    if layout.recompute.granularity != "full":
        yield "recompute every layer", replace(layout, recompute=_FULL)
    else:
        yield "keep activations", replace(layout, recompute=Recompute())
    if layout.recompute.granularity == "full" and layout.recompute != _FULL:
        yield "recompute every layer, one at a time", replace(layout, recompute=_FULL)
    if not layout.distributed_optimizer:
        yield "use-distributed-optimizer", replace(layout, distributed_optimizer=True)
    if not layout.reuse_fp32:
        yield "reuse-fp32-param", replace(layout, reuse_fp32=True)
    if not layout.swap_optimizer:
        yield "swap-optimizer (host memory, slower)", replace(layout, swap_optimizer=True)
    if layout.tp > 1 and not layout.sequence_parallel:
        yield "sequence-parallel", replace(layout, sequence_parallel=True)
    if layout.micro_batch > 1:
        half = layout.micro_batch // 2
        more = layout.grad_accumulation * layout.micro_batch // half
        yield f"micro-batch {half}", replace(layout, micro_batch=half, grad_accumulation=more)
    for key in ("tp", "pp", "cp", "ep"):
        size = getattr(layout, key) * 2
        changed = replace(layout, **{key: size})
        if key == "pp":
            changed = replace(changed, virtual=max(1, layout.virtual // 2), stage_layers=())
        if key in ("tp", "pp", "cp") and layout.dp > 1:
            # The global batch stays: fewer data-parallel ranks, more micro-batches each.
            changed = replace(changed, grad_accumulation=layout.grad_accumulation * 2)
        yield f"{key} {size}", changed


def changes(setting: Setting, before: Plan) -> list[Change]:
    """Every single change that is consistent and helps, the most helpful first."""
    layout = before.layout
    options = _fsdp2(layout) if isinstance(layout, Fsdp2Layout) else _mcore(layout)
    cost = step_cost_s(before)
    found = []
    for what, changed in options:
        if problems(setting, changed):
            continue
        plan = make(setting, changed)
        after = step_cost_s(plan)
        faster = None if cost is None or after is None else cost - after
        found.append(Change(what, before.memory.total - plan.memory.total, faster, plan))
    if before.fits and cost is not None:
        quick = [c for c in found if c.plan.fits and (c.faster_s or 0) > 0]
        return sorted(quick, key=lambda c: -(c.faster_s or 0))
    return sorted((c for c in found if c.saved > 0), key=lambda c: -c.saved)
