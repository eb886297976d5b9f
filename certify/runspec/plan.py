"""What ``runner.plan_trace`` reads: one training step to be traced without data or devices.

Same strict JSON form as `certify.runspec`. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from certify.runspec.form import read_form, write_form
from certify.runspec.run import ParallelSpec

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.planspec/1"


@dataclass(frozen=True)
class PlanSpec:
    """One trace of the fsdp2 backend on a fake process group.

    hf_config: the complete transformers configuration; layers: the depths to trace, each in
    turn; world_size: ranks, as in the real job; micro_batch: samples of one rank and step;
    seq_length: tokens of a sample; dtype: of the stored parameters; parallel: as in a run spec;
    chunk_loss_size: positions whose logits exist at one time, None for all; out_file: where the
    result is written (JSON, schema ``certify.plantrace/1``).
    """

    hf_config: dict[str, Any]
    layers: tuple[int, ...]
    world_size: int
    micro_batch: int
    seq_length: int
    out_file: str
    parallel: ParallelSpec = field(default_factory=ParallelSpec)
    dtype: str = "float32"
    chunk_loss_size: int | None = None
    schema: str = SCHEMA


def write_plan_spec(spec: PlanSpec, path: Path) -> None:
    """Write ``SPEC.json``."""
    write_form(spec, path)


def read_plan_spec(path: Path) -> PlanSpec:
    """Read ``SPEC.json``. Raises UsageError naming the key at fault."""
    return read_form(PlanSpec, path, SCHEMA)
