"""The reshard phase: a checkpoint goes from layout to layout and back to the first.

Each hop is a run of its own: it loads what the hop before committed, commits it again as it is
laid out now, and trains one step. The layouts are data of the scale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.campaign import commands, specs
from certify.campaign.sequence import sequence_job
from certify.errors import UsageError
from certify.recipes.scale.families import is_moe
from certify.runspec import write_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.campaign.processes import Job

SIZES = ("fsdp_size", "replicate_size", "ep_size", "ep_fsdp_size")


@dataclass(frozen=True)
class Hop:
    """One layout. sizes: of the parallel dimensions, as in `ParallelSpec`."""

    world_size: int
    sizes: Mapping[str, int]


def chain(
    scale: Mapping[str, Any], parallel: Mapping[str, Any], world: int, moe: bool
) -> list[Hop]:
    """The hops after the candidate's own layout; the last one is that layout again.

    A dense model has no expert dimensions: layouts that differ in nothing else count once.
    Raises UsageError for a layout that does not cover its ranks.
    """
    own = Hop(world, _sizes(parallel, moe))
    hops: list[Hop] = []
    for row in (scale.get("reshard") or {}).get("layouts", ()):
        hop = Hop(int(row["world_size"]), _sizes(row, moe))
        if hop.sizes["fsdp_size"] * hop.sizes["replicate_size"] != hop.world_size:
            raise UsageError(
                f"the layout {dict(row)} does not cover its ranks",
                where=f"scale {scale['name']}: reshard.layouts",
                expected="fsdp_size x replicate_size = world_size",
            )
        if hop != (hops[-1] if hops else own):
            hops.append(hop)
    if hops and hops[-1] != own:
        hops.append(own)
    return hops


def _sizes(row: Mapping[str, Any], moe: bool) -> dict[str, int]:
    sizes = {name: int(row.get(name, 1)) for name in SIZES}
    return sizes if moe else {**sizes, "ep_size": 1, "ep_fsdp_size": 1}


def hop_run(run_id: str, number: int) -> str:
    """The run of one hop, counted from 1. run_id: that of the phase, with its attempt."""
    repeated = re.search(r"-a\d+$", run_id)
    head = run_id[: repeated.start()] if repeated else run_id
    return f"{head}-{number}{repeated[0] if repeated else ''}"


def hops_of(inputs: specs.Inputs, scale: Mapping[str, Any]) -> list[Hop]:
    """The hops of one campaign."""
    parallel = inputs.scaled.parallel
    return chain(scale, parallel, inputs.world_size, is_moe(inputs.hf_config))


def planned(inputs: specs.Inputs, scale: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """What the plan says of the phase: save step, and run and layout of every hop."""
    return {
        "save_step": inputs.scaled.resume["save_step"],
        "hops": [
            {"run": hop_run(run_id, n), "world_size": hop.world_size, "sizes": dict(hop.sizes)}
            for n, hop in enumerate(hops_of(inputs, scale), start=1)
        ],
    }


def job(inputs: specs.Inputs, scale: Mapping[str, Any], run_id: str, candidate: str) -> Job:
    """The launches of all hops, in order. candidate: the run that saved first."""
    layout = inputs.layout
    source, jobs = candidate, []
    for number, hop in enumerate(hops_of(inputs, scale), start=1):
        own = hop_run(run_id, number)
        spec = specs.reshard_spec(inputs, own, source, hop.world_size, hop.sizes)
        path = layout.run(own) / "spec.json"
        write_spec(spec, path)
        jobs.append(commands.torchrun_job("reshard", layout, own, hop.world_size, path))
        source = own
    if not jobs:
        raise UsageError(
            "the scale names no other layout", where=f"scale {scale['name']}: reshard.layouts"
        )
    return sequence_job("reshard", layout, run_id, jobs)
