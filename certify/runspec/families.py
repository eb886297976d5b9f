"""What ``python -m runner.families`` reads: configurations to try, each on every rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.runspec.form import read_form, write_form

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.familiesspec/1"


@dataclass(frozen=True)
class FamiliesSpec:
    """configs: name -> complete transformers configuration at the scale to try it at;
    out_file: where the results go, JSON by name; work_dir: for runs, which are deleted;
    dtypes: precisions of the parameters in the forward pass; steps: of each training."""

    configs: dict[str, Any]
    out_file: str
    work_dir: str
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    steps: int = 20
    seq_length: int = 64
    schema: str = SCHEMA


def write_families_spec(spec: FamiliesSpec, path: Path) -> None:
    """Write the spec as JSON."""
    write_form(spec, path)


def read_families_spec(path: Path) -> FamiliesSpec:
    """Read what `write_families_spec` wrote. Raises UsageError naming the key at fault."""
    return read_form(FamiliesSpec, path, SCHEMA)
