"""The default process group of a run, on one rank or as a worker of torchrun, and what one rank
does for all."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from certify.errors import CertifyError, InfrastructureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.device import Device
    from runner.journal import Journal

COLLECTIVE_TIMEOUT = timedelta(minutes=10)


def join(world_size: int, device: Device, book: Journal) -> bool:
    """Make the default process group, without a network when there is one rank.

    False when this process has one already: then it is used, and left to its owner.
    Raises UsageError unless world_size processes were started.
    """
    if book.world_size != world_size:
        raise UsageError(
            f"{book.world_size} processes were started",
            where="WORLD_SIZE",
            expected=f"{world_size}, the world_size of the run spec",
        )
    if dist.is_initialized():
        return False
    options: dict[str, Any] = {"timeout": COLLECTIVE_TIMEOUT}
    if book.world_size == 1:
        options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    elif shared := os.environ.get("CERTIFY_STORE"):
        # All ranks are on this host: they meet in a file, which asks no name server for anything.
        # One file for each restart: a store must not be met twice.
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.FileStore(f"{shared}-{restart}", book.world_size)
        options |= {"store": store, "rank": book.rank, "world_size": book.world_size}
    dist.init_process_group(device.process_group_backend, **options)
    return True


def on_rank_0(action: Callable[[], None], what: str, where: Path) -> None:
    """Do something on rank 0 and fail on every rank when it failed (collective)."""
    outcome: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            action()
        except CertifyError as error:
            outcome = [error]
        except OSError as error:
            outcome = [cannot(what, where, error)]
    dist.broadcast_object_list(outcome, src=0)
    if outcome[0] is not None:
        raise outcome[0]


def cannot(what: str, where: Path, error: BaseException) -> InfrastructureError:
    return InfrastructureError(
        f"cannot {what}: {error}",
        where=str(where),
        expected="free space and a file system shared by all ranks",
    )
