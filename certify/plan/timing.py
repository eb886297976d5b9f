"""A bound on the time of a step, for a given MFU and given link speeds.

    compute  = FLOPs of the step / (ranks x peak x MFU), longer by the pipeline's bubble
    traffic  = bytes within a node / its bandwidth + bytes across / its bandwidth
    at least   max(compute, traffic): everything overlaps
    at most    compute + traffic:     nothing does

MFU counts the FLOPs of ``causal-active-v1`` only, so recomputation is inside the MFU that is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.plan.communication import Collective


@dataclass(frozen=True)
class Speeds:
    """mfu: share of peak_flops (a second and device); within, across: bytes a second."""

    mfu: float
    peak_flops: float
    within: float
    across: float


@dataclass(frozen=True)
class Bound:
    """Seconds of one step: compute, traffic; at_least and at_most bound their sum."""

    compute_s: float
    traffic_s: float

    @property
    def at_least_s(self) -> float:
        """All traffic hidden behind computation, or the other way round."""
        return max(self.compute_s, self.traffic_s)

    @property
    def at_most_s(self) -> float:
        """Nothing overlaps."""
        return self.compute_s + self.traffic_s


def traffic_s(collectives: Iterable[Collective], speeds: Speeds) -> float:
    """Seconds that all collectives take one after another."""
    return sum(c.within / speeds.within + c.across / speeds.across for c in collectives)


def bound(
    flops: float,
    world_size: int,
    bubble: float,
    collectives: Iterable[Collective],
    speeds: Speeds,
) -> Bound:
    """The bound of a step of so many FLOPs. bubble: idle share of the pipeline."""
    compute = flops / (world_size * speeds.peak_flops * speeds.mfu) * (1 + bubble)
    return Bound(compute, traffic_s(collectives, speeds))
