"""Device meshes and process groups of a run, checked against the number of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from certify.errors import UsageError

if TYPE_CHECKING:
    from certify.runspec import ParallelSpec


@dataclass(frozen=True)
class Meshes:
    """dense: dimensions (replicate, fsdp), the ranks that share all but the routed experts.

    expert: dimensions (expert_replicate, ep_fsdp, ep), or None without expert parallel. Experts
    are divided over ep; each rank's experts are sharded over ep_fsdp. Consecutive ranks form an
    ep group, because token exchange is the heaviest traffic.
    """

    dense: Any
    expert: Any | None

    @property
    def ep_size(self) -> int:
        """Ranks over which the experts are divided."""
        return self.expert["ep"].size() if self.expert is not None else 1

    def groups(self) -> dict[str, Any]:
        """name -> live process group of this rank. Every rank is data parallel."""
        world = dist.group.WORLD
        found = {"world": world, "dp": world, "fsdp": self.dense["fsdp"].get_group()}
        if self.dense["replicate"].size() > 1:
            found["replicate"] = self.dense["replicate"].get_group()
        if self.expert is not None:
            found["ep"] = self.expert["ep"].get_group()
            found["ep_fsdp"] = self.expert["ep_fsdp"].get_group()
            if self.expert["expert_replicate"].size() > 1:
                found["expert_replicate"] = self.expert["expert_replicate"].get_group()
        return found


def check(parallel: ParallelSpec, world_size: int) -> None:
    """Raises UsageError, naming the key, when sizes do not fit the number of ranks."""
    for name in ("cp_size", "tp_size", "pp_size"):
        if getattr(parallel, name) != 1:
            raise UsageError(
                f"{name} is {getattr(parallel, name)}",
                where=f"parallel.{name}",
                expected="1: the fsdp2 backend has no such dimension yet",
            )
    if parallel.fsdp_size * parallel.replicate_size != world_size:
        raise UsageError(
            f"fsdp_size {parallel.fsdp_size} x replicate_size {parallel.replicate_size} "
            f"does not cover {world_size} ranks",
            where="parallel.fsdp_size",
            expected=f"a product of {world_size}",
        )
    expert_ranks = parallel.ep_size * parallel.ep_fsdp_size
    if parallel.ep_size > 1 and world_size % expert_ranks:
        raise UsageError(
            f"ep_size {parallel.ep_size} x ep_fsdp_size {parallel.ep_fsdp_size} "
            f"does not divide {world_size} ranks",
            where="parallel.ep_size",
            expected=f"a divisor of {world_size}",
        )


def build(parallel: ParallelSpec, device_type: str) -> Meshes:
    """Create the meshes (collective: every rank calls it). Raises UsageError as `check`."""
    world_size = dist.get_world_size()
    check(parallel, world_size)
    dense = init_device_mesh(
        device_type,
        (parallel.replicate_size, parallel.fsdp_size),
        mesh_dim_names=("replicate", "fsdp"),
    )
    if parallel.ep_size == 1:
        return Meshes(dense, None)
    replicas = world_size // (parallel.ep_size * parallel.ep_fsdp_size)
    expert = init_device_mesh(
        device_type,
        (replicas, parallel.ep_fsdp_size, parallel.ep_size),
        mesh_dim_names=("expert_replicate", "ep_fsdp", "ep"),
    )
    return Meshes(dense, expert)
