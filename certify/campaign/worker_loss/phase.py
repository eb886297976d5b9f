"""What the worker-loss phase adds to a campaign: its part of the plan, and its process."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from certify.campaign import commands, specs
from certify.campaign.files import write_json
from certify.campaign.processes import Job
from certify.campaign.worker_loss.schedule import schedule, steps_needed
from certify.errors import UsageError
from certify.runspec import write_spec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from certify.campaign.worker_loss.schedule import Injection


def injections(
    inputs: specs.Inputs, scale: Mapping[str, Any], count: int | None
) -> list[Injection]:
    """The injections of a campaign. count: as asked for with ``--injections``."""
    facts = scale["worker_loss"]
    seed = inputs.scaled.training["seed"]
    number = facts["injections"] if count is None else count
    return schedule(number, seed, inputs.world_size, facts["save_every"])


def _last_step(inputs: specs.Inputs, scale: Mapping[str, Any], planned: list[Injection]) -> int:
    needed = steps_needed(planned, scale["worker_loss"]["save_every"])
    return min(int(inputs.scaled.training["steps"]), needed)


def planned(inputs: specs.Inputs, scale: Mapping[str, Any], count: int | None) -> dict[str, Any]:
    """The phase as the plan states it, before launch."""
    facts, rows = scale["worker_loss"], injections(inputs, scale, count)
    return {
        "agent": specs.RECOVERY_AGENT,
        "save_every": facts["save_every"],
        "heartbeat_s": facts["heartbeat_s"],
        "last_step": _last_step(inputs, scale, rows),
        "injections": [dataclasses.asdict(row) for row in rows],
    }


# Checkpoints that lie side by side: two kept, damaged ones, and one that is being written.
_CHECKPOINTS = 8


def job(
    inputs: specs.Inputs, scale: Mapping[str, Any], run_id: str, count: int | None, saved: Path
) -> Job:
    """The supervisor of the run. saved: a checkpoint of this recipe, to know their size.

    Raises UsageError where the scale does not describe it.
    """
    if "worker_loss" not in scale:
        raise UsageError("the scale describes no worker loss", where=f"scale {scale['name']}")
    layout, facts = inputs.layout, scale["worker_loss"]
    rows = injections(inputs, scale, count)
    folder = layout.run(run_id)
    spec = specs.worker_loss_spec(
        inputs, run_id, facts["save_every"], _last_step(inputs, scale, rows)
    )
    write_spec(spec, folder / "spec.json")
    task = {
        "root": str(layout.root),
        "run_id": run_id,
        "world_size": spec.world_size,
        "spec": str(folder / "spec.json"),
        "max_restarts": 3 * len(rows) + 3,
        **{key: facts[key] for key in ("heartbeat_s", "start_s", "recover_s", "end_s")},
        "injections": [dataclasses.asdict(row) for row in rows],
    }
    write_json(folder / "supervise.json", task)
    size = _CHECKPOINTS * sum(f.stat().st_size for f in saved.rglob("*") if f.is_file())
    command = (sys.executable, "-m", "certify.campaign.worker_loss.supervise")
    return Job(
        name="worker-loss",
        command=(
            *_own_disk(folder / "checkpoints", size),
            *command,
            str(folder / "supervise.json"),
        ),
        cwd=folder,
        log=layout.log(run_id),
        environment=commands.environment(threads=1),
    )


def _own_disk(folder: Path, size_bytes: int) -> tuple[str, ...]:
    """Words before a command that give it a small file system of its own at `folder`, gone with
    its last process; none where this process may not mount."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return ()
    mount = f"mount -t tmpfs -o size={size_bytes} tmpfs"
    words = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
    trial = (*words, f'{mount} "$0"', str(folder))
    if subprocess.run(trial, capture_output=True, check=False).returncode != 0:
        return ()
    return (*words, f'{mount} "$0" && exec "$@"', str(folder))
