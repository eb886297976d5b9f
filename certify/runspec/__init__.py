"""The data contract from ``certify`` to what it starts: the specs that the runner reads.

Frozen dataclasses with a strict JSON form: an unknown key, a missing key or a value of another
type is an error naming the key. Standard library only, as `certify.records`.
"""

from certify.runspec.compare import CompareSpec, read_compare_spec, write_compare_spec
from certify.runspec.families import FamiliesSpec, read_families_spec, write_families_spec
from certify.runspec.form import from_json, to_json
from certify.runspec.indexed import IndexedSpec, read_indexed_spec, write_indexed_spec
from certify.runspec.prepare import PrepareSpec, read_prepare_spec, write_prepare_spec
from certify.runspec.run import (
    SCHEMA,
    CheckpointSpec,
    DataSpec,
    EvidenceSpec,
    ModelSpec,
    ParallelSpec,
    RecoverySpec,
    RunSpec,
    TrainingSpec,
    read_spec,
    write_spec,
)
from certify.runspec.speed import STATES, SpeedSpec

__all__ = [
    "SCHEMA",
    "STATES",
    "CheckpointSpec",
    "CompareSpec",
    "DataSpec",
    "EvidenceSpec",
    "FamiliesSpec",
    "IndexedSpec",
    "ModelSpec",
    "ParallelSpec",
    "PrepareSpec",
    "RecoverySpec",
    "RunSpec",
    "SpeedSpec",
    "TrainingSpec",
    "from_json",
    "read_compare_spec",
    "read_families_spec",
    "read_indexed_spec",
    "read_prepare_spec",
    "read_spec",
    "to_json",
    "write_compare_spec",
    "write_families_spec",
    "write_indexed_spec",
    "write_prepare_spec",
    "write_spec",
]
