"""The device that a plan is for: memory and speeds by exact chip name, each with its source."""

from __future__ import annotations

from dataclasses import dataclass

from certify.errors import UsageError
from certify.plan.memory import MIB
from matrices import files

# The support list's requirement of a device.
MINIMUM_MIB = 65536
_MINIMUM_SOURCE = "the support list's minimum of 64 GB a device"


@dataclass(frozen=True)
class Device:
    """chip: exact name, or ``64 GB`` for the list's minimum; memory in bytes; peak_flops: dense
    bf16 a second; within, across: bytes a second and direction, None where no source states it."""

    chip: str
    memory: float
    source: str
    peak_flops: float | None = None
    within: float | None = None
    across: float | None = None
    speed_source: str | None = None


def device_of(chip: str | None) -> Device:
    """A chip by its exact name (as npu-smi shows it), the list's minimum for None.

    Raises UsageError with near matches for an unknown name.
    """
    if chip is None:
        return Device("64 GB", float(MINIMUM_MIB * MIB), _MINIMUM_SOURCE)
    rows = {row["chip"]: row for row in files.read_tsv("chips.tsv")}
    if chip not in rows:
        from difflib import get_close_matches

        near = get_close_matches(chip, rows, n=3, cutoff=0.4)
        raise UsageError(
            f"unknown chip {chip!r}",
            where="matrices/chips.tsv",
            expected="an exact name as npu-smi shows it",
            hint=f"did you mean: {', '.join(near)}?" if near else None,
        )
    row = rows[chip]
    memory = float(int(row["memory_mb"]) * MIB)
    speeds = {row["chip"]: row for row in files.read_tsv("chip_speeds.tsv")}
    speed = speeds.get(chip)
    if speed is None:
        return Device(chip, memory, row["source"])
    return Device(
        chip,
        memory,
        row["source"],
        float(speed["bf16_tflops"]) * 1e12,
        float(speed["within_gb_s"]) * 1e9,
        float(speed["across_gb_s"]) * 1e9,
        speed["source"],
    )
