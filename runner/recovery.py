"""Continuing a run by itself: after a restart, from the newest checkpoint that is whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from certify.errors import CertifyError
from certify.records import NoStamps, Stamper
from runner import manifest

if TYPE_CHECKING:
    from certify.records import Writer
    from certify.runspec import RunSpec


def stamps_of(spec: RunSpec, rank: int) -> Stamper | NoStamps:
    """What marks the progress of this rank; nothing where no agent recovers the run."""
    return Stamper(Path(spec.run_dir), rank) if spec.recovery.agent else NoStamps()


def newest_whole(run_dir: str | Path, writer: Writer) -> Path | None:
    """The newest committed checkpoint of a run whose files are as written (collective).

    Rank 0 decides for all. What it refuses on the way is recorded; a partial one is not even
    looked at. None when there is no whole one: the run starts anew.
    """
    chosen: list[Any] = [None, []]
    if dist.get_rank() == 0:
        for step, folder in reversed(manifest.committed(Path(run_dir) / "checkpoints")):
            try:
                manifest.verify(folder)
            except (CertifyError, OSError) as error:
                chosen[1].append((step, str(getattr(error, "what", error))))
                continue
            chosen[0] = str(folder)
            break
    dist.broadcast_object_list(chosen, src=0)
    for step, what in chosen[1]:
        writer.event("checkpoint_refused", step, reason=what)
    return None if chosen[0] is None else Path(chosen[0])


def name_agent(spec: RunSpec, writer: Writer) -> None:
    """Record who restarts this run when a rank is lost, as this process can tell: the spec's
    agent, and whether torchrun's is really there."""
    if spec.recovery.agent:
        writer.event(
            "recovery_agent",
            0,
            agent=spec.recovery.agent,
            torchelastic="TORCHELASTIC_RUN_ID" in os.environ,
            max_restarts=int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")),
        )
