"""The kinds of record. The class attribute ``kind`` is the tag in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

SCHEMA = "certify.records/1"


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
