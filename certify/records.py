"""The data contract between training and judging: what a run writes, and how it is read back.

A run writes one file per rank, ``records/rank-00000.jsonl``: JSON lines, the first of kind
``header``. The file is append-only and flushed line by line, so a killed writer leaves at most
one truncated last line; that is tolerated and reported. Anything else malformed is an error that
names file and line. Standard library only: the runner, the references and the judge all use it.

Numbers that decide a verdict are written twice, as a decimal for people and as a float hex
(``float.hex``) for exact comparison.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import TextIO

SCHEMA = "certify.records/1"

# ---------------------------------------------------------------------------------------------
# Digests. Every side computes them with these functions, so that equal means equal.


def sample_digest(tokens: bytes, mask: bytes = b"") -> str:
    """sha256 of one sample. tokens: its ids as little-endian int32; mask: one byte per label."""
    return hashlib.sha256(tokens + b"\0" + mask).hexdigest()


def batch_digest(samples: Iterable[str]) -> str:
    """sha256 of a global batch from its sample digests in global order.

    Ranks hash their own samples and exchange digests, so the result does not depend on the
    number of ranks.
    """
    joined = hashlib.sha256()
    for digest in samples:
        joined.update(bytes.fromhex(digest))
    return joined.hexdigest()


def tensor_digest(dtype: str, shape: Iterable[int], raw: bytes) -> str:
    """sha256 of a full (unsharded) tensor. raw: its elements, row-major, little-endian."""
    head = f"{dtype}[{','.join(map(str, shape))}]\0".encode()
    return hashlib.sha256(head + raw).hexdigest()


def root_digest(digests: Mapping[str, str]) -> str:
    """One sha256 over named digests, independent of their order."""
    joined = hashlib.sha256()
    for name in sorted(digests):
        joined.update(f"{name}:{digests[name]}\n".encode())
    return joined.hexdigest()


# ---------------------------------------------------------------------------------------------
# Record kinds. The class attribute `kind` is the tag in the file.


@dataclass(frozen=True)
class Header:
    """First line of every file. start_unix_s: wall clock when the process opened the file."""

    kind: ClassVar[str] = "header"
    run_id: str
    role: str  # candidate | reference | compare
    backend: str  # fsdp2 | mcore
    rank: int
    world_size: int
    pid: int
    start_unix_s: float
    attempt: int = 0  # elastic restart count
    schema: str = SCHEMA


@dataclass(frozen=True)
class Environment:
    """What ran. packages: distribution -> version; effective: values read back from the libraries
    (deterministic mode, threads, matmul precision), not those that were asked for;
    variables: environment by allow-list."""

    kind: ClassVar[str] = "environment"
    python: str
    platform: str
    device: str  # cpu | cuda | npu
    device_name: str
    packages: dict[str, str]
    effective: dict[str, Any]
    variables: dict[str, str]


@dataclass(frozen=True)
class Topology:
    """Read from the live process groups, never from the configuration.

    groups: name (world, fsdp, ep, ep_fsdp, tp, pp, dp, cp) -> global ranks of this rank's group.
    """

    kind: ClassVar[str] = "topology"
    world_size: int
    groups: dict[str, list[int]]
    process_group_backend: str


@dataclass(frozen=True)
class Component:
    """Whose code a side runs. part: model | optimizer | scheduler | loss.

    file: path inside its package; source_sha256: digest of that file;
    effective: hyper-parameters read back from the live object.
    """

    kind: ClassVar[str] = "component"
    part: str
    class_name: str
    module: str
    file: str
    package: str
    version: str
    source_sha256: str
    effective: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Modules:
    """Top-level packages of interest that this process had imported when it began to train, and
    which of them trained: trained_classes are the torch.nn.Module classes whose parameters were
    given to the optimizer."""

    kind: ClassVar[str] = "modules"
    loaded: list[str]
    trained_classes: list[str]


@dataclass(frozen=True)
class Collective:
    """One self-test of a collective that training will use, against arithmetic."""

    kind: ClassVar[str] = "collective"
    op: str  # all_reduce_sum, reduce_scatter_sum, all_gather, all_to_all_uneven, ...
    group: str
    dtype: str
    ok: bool
    expected: str = ""
    found: str = ""


@dataclass(frozen=True)
class Step:
    """One optimizer step. step counts from 1.

    loss: mean cross-entropy per supervised token over the global batch (nats);
    grad_norm: global 2-norm before clipping; lr: rate used by this step;
    tokens: token positions of the global batch; supervised_tokens: those in the loss;
    tokens_sha256, mask_sha256: `batch_digest` of the global batch; batch: its index in the data
    order, from 0; step_time_s: wall time between synchronised marks; peak_bytes: highest
    allocated device memory so far (CPU: resident set); aux_loss: the sum over layers of the
    router's auxiliary loss before its coefficient, None for a dense model.
    """

    kind: ClassVar[str] = "step"
    step: int
    loss: float
    loss_hex: str
    grad_norm: float
    grad_norm_hex: str
    lr: float
    tokens: int
    supervised_tokens: int
    tokens_sha256: str
    mask_sha256: str
    batch: int
    step_time_s: float
    peak_bytes: int
    aux_loss: float | None = None
    routing_sha256: str | None = None  # digest of all (layer, token) top-k sets of the step


@dataclass(frozen=True)
class State:
    """Canonical digests of the training state. at: init | save | load | end.

    digests: part -> hex digest. Parts: params, exp_avg, exp_avg_sq, optimizer_step, lr,
    weight_decay, rng.rank-N, data_cursor, and what a backend adds (master_params, router_bias).
    Tensor parts are `root_digest` over canonical names and full tensors, hence independent of
    the layout.
    """

    kind: ClassVar[str] = "state"
    at: str
    step: int
    digests: dict[str, str]


@dataclass(frozen=True)
class Event:
    """Something that happened: checkpoint_saved, checkpoint_loaded, resumed, fault_injected,
    control_started, ... detail holds JSON scalars only."""

    kind: ClassVar[str] = "event"
    name: str
    step: int
    unix_s: float
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Statistics of two sides' artefacts that are too large to be records themselves.

    gate: forward-parity | backward-parity | first-update | routing; values: named numbers;
    classes: parameter class or layer -> named numbers; inputs: file role -> sha256 of the
    artefact that was compared, so that anyone who keeps it can repeat the comparison.
    """

    kind: ClassVar[str] = "comparison"
    gate: str
    values: dict[str, float | int | None]
    classes: dict[str, dict[str, float | int | None]]
    inputs: dict[str, str]


@dataclass(frozen=True)
class End:
    """Last line of a run that finished by itself. status: completed | failed | stopped;
    exit_code: of this process (`certify.errors`), which a launcher may hide behind its own."""

    kind: ClassVar[str] = "end"
    status: str
    steps: int
    wall_s: float
    cpu_s: float
    reason: str = ""
    exit_code: int = 0


Record = (
    Header
    | Environment
    | Topology
    | Component
    | Modules
    | Collective
    | Step
    | State
    | Event
    | Comparison
    | End
)
KINDS: dict[str, type[Any]] = {
    cls.kind: cls
    for cls in (
        Header,
        Environment,
        Topology,
        Component,
        Modules,
        Collective,
        Step,
        State,
        Event,
        Comparison,
        End,
    )
}
R = TypeVar("R")


def rank_file(folder: Path, rank: int, stream: str = "rank") -> Path:
    """Where a rank writes. stream: ``rank``, or ``control-NAME`` for a negative control."""
    return folder / "records" / f"{stream}-{rank:05d}.jsonl"


class Writer:
    """Appends records to one file, one flushed line each. Not shared between processes."""

    def __init__(self, path: Path, header: Header) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: TextIO = path.open("a", encoding="utf-8")
        self.write(header)

    def write(self, record: Record) -> None:
        """Append one record. Raises OSError when the disk is full: the run must stop then."""
        body = {"kind": record.kind, **dataclasses.asdict(record)}
        # NaN and Infinity stay visible: a reader that cannot take them must not read them as 0.
        self._file.write(json.dumps(body, ensure_ascii=False, allow_nan=True) + "\n")
        self._file.flush()

    def event(self, name: str, step: int, **detail: Any) -> None:
        """Append an `Event` stamped with the wall clock."""
        self.write(Event(name=name, step=step, unix_s=time.time(), detail=detail))

    def close(self) -> None:
        """Flush to the disk and close."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


@dataclass(frozen=True)
class RecordFile:
    """One file read back. truncated: the last line was cut off by a killed writer."""

    path: Path
    header: Header
    records: tuple[Record, ...]
    truncated: bool

    def of(self, kind: type[R]) -> list[R]:
        """All records of one kind, in file order."""
        return [record for record in self.records if isinstance(record, kind)]

    def last(self, kind: type[R]) -> R | None:
        """The last record of one kind, or None."""
        found = self.of(kind)
        return found[-1] if found else None

    def steps(self) -> dict[int, Step]:
        """step -> record; where a restart repeated a step, the last one written counts."""
        return {record.step: record for record in self.of(Step)}


def _malformed(path: Path, line: int, what: str) -> UsageError:
    return UsageError(
        f"malformed record: {what}",
        where=f"{path}:{line}",
        expected=f"one JSON object per line as in {SCHEMA}",
        hint="the file was changed or is not a record file; run the phase again",
    )


def _parse(path: Path, number: int, body: object) -> Record:
    if not isinstance(body, dict):
        raise _malformed(path, number, "not a JSON object")
    kind = body.pop("kind", None)
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise _malformed(path, number, f"unknown kind {kind!r}")
    names = {f.name for f in dataclasses.fields(cls)}
    required = {
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if unknown := sorted(set(body) - names):
        raise _malformed(path, number, f"{kind} has no field {unknown[0]!r}")
    if missing := sorted(required - set(body)):
        raise _malformed(path, number, f"{kind} lacks field {missing[0]!r}")
    for f in dataclasses.fields(cls):
        if f.name in body and not _fits(body[f.name], str(f.type)):
            raise _malformed(path, number, f"{kind}.{f.name} is {body[f.name]!r}, not {f.type}")
    record: Record = cls(**body)
    return record


_SIMPLE: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "float | None": (int, float, type(None)),
    "str | None": (str, type(None)),
}


def _fits(value: object, annotation: str) -> bool:
    """Whether a JSON value has the annotated shape (containers are checked at their top)."""
    if annotation in _SIMPLE:
        if isinstance(value, bool) and annotation != "bool":
            return False
        return isinstance(value, _SIMPLE[annotation])
    if annotation.startswith("dict["):
        return isinstance(value, dict)
    if annotation.startswith("list["):
        return isinstance(value, list)
    return True


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """(line number, text, whether it ended in a newline)."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            yield number, raw.rstrip(b"\r\n"), raw.endswith(b"\n")


def read_file(path: Path) -> RecordFile:
    """Read one record file.

    A truncated last line is left out and reported by `RecordFile.truncated`. Several headers
    (elastic restarts append to the file) are allowed; `header` is the last one.
    Raises UsageError naming file and line for anything else malformed, and for a missing file.
    """
    records: list[Record] = []
    truncated = False
    try:
        for number, raw, complete in _lines(path):
            if truncated:
                # A restart continues after the cut line: only its own header may follow one.
                truncated = False
            try:
                body = json.loads(raw)
            except (ValueError, RecursionError):
                if complete:
                    raise _malformed(path, number, "not JSON") from None
                truncated = True
                continue
            records.append(_parse(path, number, body))
    except OSError as error:
        raise UsageError(
            f"cannot read records: {error.strerror}",
            where=str(path),
            expected="a record file written by a run",
        ) from None
    headers = [record for record in records if isinstance(record, Header)]
    if not headers or not isinstance(records[0], Header):
        raise _malformed(path, 1, "the first record is not a header")
    for header in headers:
        if header.schema != SCHEMA:
            raise _malformed(path, 1, f"schema {header.schema!r}, this version reads {SCHEMA!r}")
    return RecordFile(path, headers[-1], tuple(records), truncated)


def read_run(folder: Path, stream: str = "rank") -> list[RecordFile]:
    """All rank files of one run folder, by rank. An empty list when it has none."""
    found = sorted((folder / "records").glob(f"{stream}-[0-9]*.jsonl"))
    return [read_file(path) for path in found]


def control_streams(folder: Path) -> list[str]:
    """Names of the negative-control streams in a run folder."""
    found = {path.name.rsplit("-", 1)[0] for path in (folder / "records").glob("control-*.jsonl")}
    return sorted(found)
