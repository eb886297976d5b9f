"""Layouts that fit, ranked: the bound on the step's time first, free memory second.

Without speeds the order is by bytes across nodes, then by bytes within them, both of one step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from certify.plan.layout import Fsdp2Layout, McoreLayout, Recompute
from certify.plan.make import Plan, Setting, make, problems, step_cost_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.plan.layout import Layout

_CHUNKS = (None, 1024)
_RECOMPUTE = (Recompute(), Recompute("full", "uniform", 1))


def _powers(limit: int) -> list[int]:
    found = [1]
    while found[-1] * 2 <= limit:
        found.append(found[-1] * 2)
    return found


def _fsdp2(setting: Setting, base: Fsdp2Layout) -> Iterator[Layout]:
    world = setting.cluster.world_size
    experts = max((la.moe.experts for la in setting.model.layers if la.moe), default=1)
    batch = base.micro_batch * base.grad_accumulation
    for ep in _powers(min(world, experts)):
        for micro in _powers(min(batch, 4)):
            for recompute in (False, True):
                for chunk in _CHUNKS:
                    yield replace(
                        base,
                        fsdp=world,
                        replicate=1,
                        ep=ep,
                        ep_fsdp=world // ep,
                        micro_batch=micro,
                        grad_accumulation=max(1, batch // micro),
                        recompute=recompute,
                        chunk_loss_size=chunk,
                    )


def _mcore(setting: Setting, base: McoreLayout) -> Iterator[Layout]:
    world, npus = setting.cluster.world_size, setting.cluster.npus_per_node
    experts = max((la.moe.experts for la in setting.model.layers if la.moe), default=1)
    samples = base.tokens_per_step // base.seq_length
    for tp in _powers(npus):
        for pp in _powers(min(world // tp, 16)):
            for cp in sorted({1, base.cp}):
                for ep in _powers(min(experts, world // pp)):
                    dp = world // (tp * pp * cp)
                    if dp < 1 or samples % (dp * base.micro_batch):
                        continue
                    for recompute in _RECOMPUTE:
                        yield replace(
                            base,
                            tp=tp,
                            pp=pp,
                            virtual=1,
                            cp=cp,
                            ep=ep,
                            etp=1 if experts > 1 else None,
                            grad_accumulation=samples // (dp * base.micro_batch),
                            sequence_parallel=tp > 1,
                            distributed_optimizer=True,
                            recompute=recompute,
                            schedule="1f1b",
                            stage_layers=(),
                            noop_layers=(),
                        )


def _cost(plan: Plan) -> tuple[float, float, float]:
    seconds = step_cost_s(plan)
    if plan.bound is not None and seconds is not None:
        return seconds, plan.bound.traffic_s, plan.memory.total
    across = sum(c.across for c in plan.collectives)
    within = sum(c.within for c in plan.collectives)
    return across, within, plan.memory.total


def suggest(setting: Setting, base: Layout, count: int = 5) -> list[Plan]:
    """The best layouts that fit, at most ``count``, the global batch kept."""
    options = _fsdp2(setting, base) if isinstance(base, Fsdp2Layout) else _mcore(setting, base)
    plans = [make(setting, layout) for layout in options if not problems(setting, layout)]
    return sorted((p for p in plans if p.fits), key=_cost)[:count]
