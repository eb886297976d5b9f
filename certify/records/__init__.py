"""The data contract between training and judging: what a run writes, and how it is read back.

A run writes one file per rank, ``records/rank-00000.jsonl``: JSON lines, the first of kind
``header``. The file is append-only and flushed line by line, so a killed writer leaves at most
one truncated last line; that is tolerated and reported. Anything else malformed is an error that
names file and line. Standard library only: the runner, the references and the judge all use it.

Numbers that decide a verdict are written twice, as a decimal for people and as a float hex
(``float.hex``) for exact comparison.
"""

from certify.records.digests import (
    batch_digest,
    root_digest,
    sample_digest,
    tensor_digest,
)
from certify.records.files import (
    RecordFile,
    Writer,
    control_streams,
    rank_file,
    read_file,
    read_run,
)
from certify.records.kinds import (
    KINDS,
    SCHEMA,
    Collective,
    Comparison,
    Component,
    End,
    Environment,
    Event,
    Header,
    Modules,
    Record,
    State,
    Step,
    Topology,
)
from certify.records.stamps import MARKS, NoStamps, Stamp, Stamper, read_stamps, stamp_file

__all__ = [
    "KINDS",
    "MARKS",
    "SCHEMA",
    "Collective",
    "Comparison",
    "Component",
    "End",
    "Environment",
    "Event",
    "Header",
    "Modules",
    "NoStamps",
    "Record",
    "RecordFile",
    "Stamp",
    "Stamper",
    "State",
    "Step",
    "Topology",
    "Writer",
    "batch_digest",
    "control_streams",
    "rank_file",
    "read_file",
    "read_run",
    "read_stamps",
    "root_digest",
    "sample_digest",
    "stamp_file",
    "tensor_digest",
]
