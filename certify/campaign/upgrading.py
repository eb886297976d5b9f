"""The upgrade phase: a checkpoint written on one stack is continued on another.

before        the candidate, uninterrupted, on the stack to come from; it writes the checkpoint
before-again  the same once more: decides the tier, as for a resume
after         the checkpoint continued on the stack to go to, then the negative controls
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from certify.campaign import commands, specs
from certify.campaign.reshard import hop_run
from certify.campaign.sequence import sequence_job
from certify.runspec import write_spec

if TYPE_CHECKING:
    from certify.campaign.processes import Job
    from certify.campaign.stacks import Stack
    from certify.runspec import RunSpec

LEGS = ("before", "before-again", "after")


def _runs(run_id: str) -> dict[str, str]:
    return {leg: hop_run(run_id, n) for n, leg in enumerate(LEGS, start=1)}


def planned(inputs: specs.Inputs, run_id: str, stacks: tuple[Stack, Stack]) -> dict[str, Any]:
    """What the plan says of the phase: runs, save step, and the versions of both stacks."""
    resume, runs = inputs.scaled.resume, _runs(run_id)
    return {
        "before": runs["before"],
        "before_again": runs["before-again"],
        "after": runs["after"],
        "save_step": resume["save_step"],
        "steps": resume["steps"],
        "save_point": resume["save_point"],
        "controls": list(resume["controls"]),
        "from_stack": dict(stacks[0].versions),
        "to_stack": dict(stacks[1].versions),
    }


def leg_specs(inputs: specs.Inputs, run_id: str) -> dict[str, RunSpec]:
    """Leg -> run spec. The first two end where the third does."""
    runs = _runs(run_id)
    after = specs.resume_spec(inputs, runs["after"], runs["before"])
    found = {
        "before": specs.candidate_spec(inputs, runs["before"]),
        "before-again": specs.candidate_spec(inputs, runs["before-again"], again=True),
        "after": after,
    }
    return {
        leg: dataclasses.replace(spec, stop_step=after.stop_step) for leg, spec in found.items()
    }


def job(inputs: specs.Inputs, run_id: str, stacks: tuple[Stack, Stack]) -> Job:
    """The launches of all legs, in order. stacks: to come from, to go to."""
    layout, jobs = inputs.layout, []
    for leg, spec in leg_specs(inputs, run_id).items():
        path = layout.run(spec.run_id) / "spec.json"
        write_spec(spec, path)
        launch = commands.torchrun_job("upgrade", layout, spec.run_id, spec.world_size, path)
        stack = stacks[1] if leg == "after" else stacks[0]
        jobs.append(stack.moved(launch, layout.run(run_id) / "packages"))
    return sequence_job("upgrade", layout, run_id, jobs)
