"""Saving and loading the training state with torch.distributed.checkpoint.

Tensors are saved as DTensors over the full mesh, so that any topology can load them. What
belongs to a rank (its random state, its trainer state) has a key with the rank's name. A save
is committed as a whole or not at all (`runner.manifest`).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from certify.errors import UsageError
from runner import manifest
from runner.process_group import cannot, on_rank_0

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.digests import TrainingState
    from runner.parallel.shards import Shard

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Loaded:
    """step: steps trained before; next_batch: the data cursor; rng: this rank's random state,
    or None when the checkpoint was written by fewer ranks; rate: the last learning rate."""

    step: int
    next_batch: int
    rng: bytes | None
    rate: float


def _rank_key(rank: int, part: str) -> str:
    return f"rank-{rank:05d}.{part}"


def _blob(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _tensors(
    shards: list[Shard], optimizer: Any, buffers: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    """The views that are saved from and loaded into; they share the storage of training."""
    found: dict[str, Any] = {f"buffers.{name}": value for name, value in buffers.items()}
    for shard in shards:
        moments = optimizer.state[shard.local]
        found[f"params.{shard.name}"] = shard.as_dtensor(shard.local.detach())
        for key in MOMENTS:
            found[f"{key}.{shard.name}"] = shard.as_dtensor(moments[key])
        found[f"step.{shard.name}"] = moments["step"]
    return found


def save(folder: Path, state: TrainingState, step: int, run_id: str) -> None:
    """Commit the state after `step` to `folder` (collective).

    Raises InfrastructureError on every rank when any rank could not write (a full disk); the
    folder then does not exist, and earlier checkpoints are untouched.
    """
    partial = folder.with_name(folder.name + ".tmp")

    def prepare() -> None:
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)

    on_rank_0(prepare, "prepare a checkpoint", partial)
    rank = dist.get_rank()
    trainer = {
        "step": step,
        "next_batch": state.next_batch,
        "rate": float(state.optimizer.param_groups[0]["lr"]).hex(),
    }
    entries = _tensors(state.shards, state.optimizer, state.buffers)
    entries[_rank_key(rank, "rng")] = _blob(state.rng())
    entries[_rank_key(rank, "trainer")] = _blob(json.dumps(trainer).encode())
    try:
        dcp.save(entries, checkpoint_id=str(partial))
    except (OSError, RuntimeError, CheckpointException) as error:
        # torch reports a full disk as RuntimeError and leaves a truncated file behind.
        if rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
        raise cannot("write a checkpoint", partial, error) from error
    ranks = dist.get_world_size()
    dist.barrier()
    on_rank_0(
        lambda: manifest.commit(partial, folder, run_id, step, state.next_batch, ranks),
        "commit a checkpoint",
        folder,
    )


def _make_moments(shards: list[Shard], optimizer: Any) -> None:
    """Empty AdamW state: torch makes it only in the first step."""
    fused = bool(optimizer.defaults.get("fused"))
    for shard in shards:
        device = shard.local.device if fused else "cpu"
        optimizer.state[shard.local] = {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            **{key: torch.zeros_like(shard.local.detach()) for key in MOMENTS},
        }


def load(
    folder: Path,
    shards: list[Shard],
    optimizer: Any,
    verify: bool = True,
    buffers: Mapping[str, torch.Tensor] | None = None,
) -> Loaded:
    """Load a committed checkpoint into the live parameters and optimizer (collective).

    verify: check every file against the manifest first. Random states are returned, not
    restored: that is the last thing before training continues.
    Raises UsageError naming the file for a partial, changed or unfitting checkpoint.
    """

    def check() -> None:
        manifest.verify(folder) if verify else manifest.read(folder)

    on_rank_0(check, "read a checkpoint", folder)
    _make_moments(shards, optimizer)
    entries = _tensors(shards, optimizer, buffers or {})
    rank = dist.get_rank()
    try:
        known = dcp.FileSystemReader(str(folder)).read_metadata().state_dict_metadata
        trainer_rank = rank if _rank_key(rank, "trainer") in known else 0
        for key in (_rank_key(rank, "rng"), _rank_key(trainer_rank, "trainer")):
            if key in known:
                entries[key] = torch.zeros(known[key].size, dtype=torch.uint8)
        dcp.load(entries, checkpoint_id=str(folder))
    except (OSError, RuntimeError, ValueError, KeyError, CheckpointException) as error:
        raise UsageError(
            f"the checkpoint does not fit this run: {error}",
            where=str(folder),
            expected="a checkpoint of the same model and optimizer",
        ) from error
    trainer = json.loads(entries[_rank_key(trainer_rank, "trainer")].numpy().tobytes())
    rng = entries.get(_rank_key(rank, "rng"))
    rate = float.fromhex(trainer["rate"])
    for group in optimizer.param_groups:
        group["lr"] = rate
    return Loaded(
        step=int(trainer["step"]),
        next_batch=int(trainer["next_batch"]),
        rng=None if rng is None else rng.numpy().tobytes(),
        rate=rate,
    )
