"""One plan: architecture, layout, device and speeds in, everything that follows from them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.plan import communication, flops, memory_fsdp2, memory_mcore, pipeline, timing
from certify.plan.layout import Fsdp2Layout, check_fsdp2, check_mcore

if TYPE_CHECKING:
    from certify.plan.architecture import Architecture
    from certify.plan.communication import Collective
    from certify.plan.devices import Device
    from certify.plan.layout import Cluster, Layout
    from certify.plan.memory import Memory


@dataclass(frozen=True)
class Plan:
    """What a layout needs and costs. problems: sizes that do not fit together, empty when they do;
    usable: share of the device that a run may reserve (criteria, gate memory)."""

    model: Architecture
    layout: Layout
    cluster: Cluster
    device: Device
    usable: float
    problems: tuple[str, ...]
    memory: Memory
    collectives: tuple[Collective, ...]
    flops_per_token: float
    step_flops: float
    bound: timing.Bound | None

    @property
    def fits(self) -> bool:
        """Whether the layout is consistent and its peak within the usable memory."""
        return not self.problems and self.memory.total <= self.limit

    @property
    def limit(self) -> float:
        """Bytes that may be used of the device."""
        return self.device.memory * self.usable

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.layout.tokens_per_step


@dataclass(frozen=True)
class Setting:
    """What stays when layouts are varied. buffsize_mib: HCCL_BUFFSIZE where a recipe sets it."""

    model: Architecture
    cluster: Cluster
    device: Device
    usable: float
    speeds: timing.Speeds | None = None
    buffsize_mib: int | None = None


def problems(setting: Setting, layout: Layout) -> tuple[str, ...]:
    """Sentences about sizes that do not fit together."""
    world = setting.cluster.world_size
    if isinstance(layout, Fsdp2Layout):
        return tuple(check_fsdp2(layout, world, setting.model))
    return tuple(check_mcore(layout, world, setting.model))


def make(setting: Setting, layout: Layout) -> Plan:
    """The plan of one layout. Pure."""
    model, cluster = setting.model, setting.cluster
    found = problems(setting, layout)
    if isinstance(layout, Fsdp2Layout):
        memory = memory_fsdp2.memory(model, layout, setting.buffsize_mib)
        moved = communication.fsdp2(model, layout, cluster)
        idle = 0.0
    else:
        memory = memory_mcore.memory(model, layout, setting.buffsize_mib)
        moved = communication.mcore(model, layout, cluster, memory.stage)
        idle = pipeline.bubble(layout)
    each = flops.flops_per_token(model, layout.seq_length)
    extra = flops.prediction_flops_per_token(model, layout.seq_length)
    step = (each + extra) * layout.tokens_per_step
    bound = None
    if setting.speeds is not None:
        bound = timing.bound(step, cluster.world_size, idle, moved, setting.speeds)
    return Plan(model, layout, cluster, setting.device, setting.usable, found, memory,
                tuple(moved), each, step, bound)  # fmt: skip


# Recomputing a layer adds a forward pass to one forward pass and a backward pass of two.
_WITH_RECOMPUTATION = 4 / 3


def step_cost_s(plan: Plan) -> float | None:
    """Seconds by which layouts are compared: nothing overlaps, and a recomputed forward pass
    costs what the first one did. None without speeds."""
    if plan.bound is None:
        return None
    recompute = getattr(plan.layout, "recompute", False)
    again = recompute is True or getattr(recompute, "granularity", "") == "full"
    times = _WITH_RECOMPUTATION if again else 1.0
    return plan.bound.compute_s * times + plan.bound.traffic_s
