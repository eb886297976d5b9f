"""Which layouts this backend runs, and why the others are refused. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.errors import CannotJudgeError, UsageError
from runner.backends.mcore import families

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.runspec import RunSpec

DISPATCHERS = ("allgather", "alltoall")
RECOMPUTE = ("none", "full")


def data_parallel(spec: RunSpec) -> int:
    """Number of data-parallel ranks: what tensor, pipeline and context parallel leave."""
    p = spec.parallel
    return spec.world_size // (p.tp_size * p.pp_size * p.cp_size)


def last_stage_layers(spec: RunSpec) -> int | None:
    """Layers of the last pipeline stage where the stages cannot be equal, else None.

    The other stages have the same number each, rounded up.
    """
    layers, stages = int(spec.model.hf_config["num_hidden_layers"]), spec.parallel.pp_size
    if layers % stages == 0:
        return None
    return layers - -(-layers // stages) * (stages - 1)


def check(spec: RunSpec) -> None:
    """Raises UsageError for a layout that divides nothing evenly, and CannotJudgeError for one
    that Megatron-Core's own modules do not run without Transformer Engine."""
    for key, value, ok, expected in _shape(spec):
        if not ok:
            section = "training" if key == "micro_batch" else "parallel"
            raise UsageError(
                f"the mcore backend does not run {key} = {value!r}",
                where=f"spec.json: {section}.{key}",
                expected=expected,
            )
    for key, value, refused, reason in _not_run(spec):
        if refused:
            raise CannotJudgeError(
                f"the mcore backend does not run {key} = {value!r}: {reason}",
                where=f"spec.json: parallel.{key}",
                expected="a layout of docs/mcore.md",
                hint="certify plan RECIPE --backend mcore shows what such a layout would take",
            )


def _shape(spec: RunSpec) -> Iterator[tuple[str, object, bool, str]]:
    p, t, hf = spec.parallel, spec.training, spec.model.hf_config
    sizes = {"tp_size": p.tp_size, "pp_size": p.pp_size, "cp_size": p.cp_size}
    sizes |= {"ep_size": p.ep_size, "vpp_size": p.vpp_size}
    for name, size in sizes.items():
        yield name, size, size >= 1, "at least 1"
    model = p.tp_size * p.pp_size * p.cp_size
    yield (
        "tp_size",
        p.tp_size,
        spec.world_size % model == 0,
        f"a product that divides the {spec.world_size} ranks",
    )
    dp = max(1, spec.world_size // model)
    yield "ep_size", p.ep_size, dp % p.ep_size == 0, f"a divisor of the {dp} data-parallel ranks"
    experts = families.num_experts(hf)
    yield "ep_size", p.ep_size, p.ep_size == 1 or experts > 0, "1 for a model without experts"
    yield "ep_size", p.ep_size, experts % p.ep_size == 0, f"a divisor of the {experts} experts"
    for name, number in families.divided(hf).items():
        yield "tp_size", p.tp_size, number % p.tp_size == 0, f"a divisor of {name} = {number}"
    layers, stages = int(hf["num_hidden_layers"]), p.pp_size * p.vpp_size
    even = layers % stages == 0
    last = last_stage_layers(spec)
    uneven = p.vpp_size == 1 and last is not None and last > 0
    yield "pp_size", p.pp_size, even or uneven, f"stages for {layers} layers, none without one"
    yield "vpp_size", p.vpp_size, p.vpp_size == 1 or p.pp_size > 1, "1 without pipeline parallel"
    whole = t.global_batch % (t.micro_batch * dp) == 0 if t.micro_batch > 0 else False
    yield (
        "micro_batch",
        t.micro_batch,
        whole,
        f"a divisor of the global batch of {t.global_batch} on {dp} data-parallel ranks",
    )
    count = t.global_batch // (t.micro_batch * dp) if whole else 0
    fills = p.vpp_size == 1 or count % p.pp_size == 0
    yield "vpp_size", p.vpp_size, fills, f"micro-batches ({count}) in multiples of pp_size"
    known = p.moe_dispatcher in DISPATCHERS
    yield "moe_dispatcher", p.moe_dispatcher, known, " or ".join(DISPATCHERS)
    yield "recompute", p.recompute, p.recompute in RECOMPUTE, " or ".join(RECOMPUTE)


def _not_run(spec: RunSpec) -> Iterator[tuple[str, object, bool, str]]:
    p = spec.parallel
    moe = families.family(spec.model.hf_config).moe
    yield (
        "cp_size",
        p.cp_size,
        p.cp_size > 1,
        "its attention without Transformer Engine has no context parallel",
    )
    yield (
        "sequence_parallel",
        p.sequence_parallel,
        p.sequence_parallel,
        "its norms without Transformer Engine refuse sequence parallel",
    )
    yield (
        "tp_size",
        p.tp_size,
        moe and p.tp_size > 1,
        "experts under tensor parallel need sequence parallel, which its norms without"
        " Transformer Engine refuse",
    )
