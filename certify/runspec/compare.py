"""What ``runner.compare`` reads: two finished runs whose evidence is to be compared.

Same strict JSON form as `certify.runspec`. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.runspec.form import read_form, write_form

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.comparespec/1"


@dataclass(frozen=True)
class CompareSpec:
    """One comparison.

    run_dir: where the comparison writes its records; candidate_dir, reference_dir: run folders
    with ``evidence/``; reference_again_dir: the reference's second run, or None; exact_dir: a run
    of the reference in higher precision (the bf16 tier), or None; weights_dir: the initial
    weights; probe_file: .npy int32 (samples, positions + 1); hf_config: the final configuration;
    dtype: of both runs, float32 or bfloat16; backend: the candidate's, for the header.
    """

    run_id: str
    campaign_id: str
    run_dir: str
    candidate_dir: str
    reference_dir: str
    weights_dir: str
    probe_file: str
    hf_config: dict[str, Any]
    reference_again_dir: str | None = None
    exact_dir: str | None = None
    dtype: str = "float32"
    backend: str = "fsdp2"
    schema: str = SCHEMA


def write_compare_spec(spec: CompareSpec, path: Path) -> None:
    """Write ``COMPARE.json``."""
    write_form(spec, path)


def read_compare_spec(path: Path) -> CompareSpec:
    """Read ``COMPARE.json``. Raises UsageError naming the key at fault."""
    return read_form(CompareSpec, path, SCHEMA)
