"""Device memory of a step: what `memory_fsdp2` and `memory_mcore` return, and shared terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.plan.architecture import Architecture, Layer, Mixer

MIB = 2**20
GIB = 2**30
# HCCL: each communicator owns 2 x HCCL_BUFFSIZE, 200 MB unless set (hiascend.com, CANN 8.5
# commercial edition, HCCL user guide, HCCL_BUFFSIZE; read 2026-11-30).
HCCL_BUFFSIZE_MIB = 200
_BUFFERS_PER_COMMUNICATOR = 2


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest device at its peak.

    parameters, gradients, optimizer, activations, logits, gathered (parameters and gradients made
    whole for a moment), communication (buffers of the communication library): they add up to
    total. peak is what a framework allocates itself (all but communication). at: the moment of
    the peak; moments: peak bytes of each moment, by name; stage: the pipeline rank.
    """

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    gathered: float
    communication: float
    at: str
    moments: Mapping[str, float]
    stage: int = 0

    @property
    def peak(self) -> float:
        """Bytes that the framework's allocator hands out."""
        return self.total - self.communication

    @property
    def total(self) -> float:
        """Bytes of the device that are needed."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """The seven parts by name."""
        names = (
            "parameters",
            "gradients",
            "optimizer",
            "activations",
            "logits",
            "gathered",
            "communication",
        )
        return {name: float(getattr(self, name)) for name in names}

    @property
    def dominant(self) -> str:
        """The largest part."""
        parts = self.parts()
        return max(parts, key=lambda name: parts[name])


def communication_buffers(communicators: int, buffsize_mib: int = HCCL_BUFFSIZE_MIB) -> float:
    """Bytes that HCCL holds for this many communicators of a rank."""
    return float(communicators * _BUFFERS_PER_COMMUNICATOR * buffsize_mib * MIB)


def norm_kept(width: float, dtype_bytes: int) -> float:
    """Bytes a token that an unfused RMSNorm of this width keeps with its result: the input in
    fp32, the normalised value, and the result, which the next projection keeps."""
    return width * (4 + dtype_bytes + dtype_bytes)


def mixer_kept(mixer: Mixer, dtype_bytes: int) -> float:
    """Bytes a token kept by the mixer itself: q, k, v and result of the fused kernel, one fp32
    log-sum-exp a head, latents; norms of its own come on top."""
    widths = mixer.q + mixer.k + mixer.v + mixer.out + mixer.other
    return widths * dtype_bytes + 4 * mixer.heads


def widest(model: Architecture) -> Layer:
    """The layer with most weights: the one that costs most to gather and to compute again."""
    return max(model.layers, key=lambda layer: layer.numel())
