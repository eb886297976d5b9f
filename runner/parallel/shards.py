"""The parameters of a wrapped model as plain local tensors plus what is needed to rebuild them.

Norm, clipping and the optimizer work on local tensors: exact, fast and the same for every mesh.
DTensors over the full mesh are made only for checkpoints and digests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor import Shard as ShardDim

from certify.errors import InfrastructureError

if TYPE_CHECKING:
    from runner.parallel.fsdp import Wrapped
    from runner.parallel.mesh import Meshes


@dataclass(frozen=True)
class Shard:
    """This rank's part of one parameter.

    name: in the model, without prefixes of wrappers; parameter: what the model holds;
    local: a parameter that shares this rank's storage and is given to the optimizer;
    mesh, placements, shape: the global layout; copies: how many ranks hold the same part;
    is_expert: divided over an expert-parallel group; is_replicated: whole on every rank, its
    gradient is added up by `Shards.collect_gradients`.
    """

    name: str
    parameter: Any
    local: nn.Parameter
    mesh: Any
    placements: tuple[Any, ...]
    shape: tuple[int, ...]
    copies: int
    is_expert: bool
    is_replicated: bool

    def as_dtensor(self, local: torch.Tensor) -> DTensor:
        """The global view of a local tensor laid out like this parameter (no communication)."""
        strides = [math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]
        return DTensor.from_local(
            local,
            self.mesh,
            self.placements,
            run_check=False,
            shape=torch.Size(self.shape),
            stride=tuple(strides),
        )

    def full(self, local: torch.Tensor) -> torch.Tensor:
        """The whole tensor (collective: every rank calls it)."""
        whole: torch.Tensor = self.as_dtensor(local.detach()).full_tensor()
        return whole


def local_part(tensor: Any) -> torch.Tensor:
    """This rank's storage of a parameter or gradient."""
    part: torch.Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return part.detach()


def collect(model: nn.Module, meshes: Meshes, wrapped: Wrapped) -> list[Shard]:
    """The shards of a materialised model, in model order."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # The first unshard may move uneven shards to padded storage: let it happen before
            # their storage is shared.
            module.unshard()
            module.reshard()
    return [_shard(n, p, meshes, wrapped) for n, p in model.named_parameters()]


def _shard(name: str, parameter: Any, meshes: Meshes, wrapped: Wrapped) -> Shard:
    local = nn.Parameter(local_part(parameter))
    is_expert = name.rpartition(".")[0] in wrapped.experts
    is_replicated = not isinstance(parameter, DTensor)
    shape = tuple(parameter.shape)
    if is_expert:
        mesh = meshes.expert
        assert mesh is not None
        placements: tuple[Any, ...] = (Replicate(), ShardDim(1), ShardDim(0))
        shape = (shape[0] * meshes.ep_size, *shape[1:])
    elif is_replicated:
        mesh, placements = meshes.dense, (Replicate(), Replicate())
    else:
        mesh, placements = parameter.device_mesh, tuple(parameter.placements)
    shared = math.prod(
        mesh.size(i) for i, p in enumerate(placements) if not isinstance(p, Replicate)
    )
    copies = dist.get_world_size() // shared
    return Shard(name, parameter, local, mesh, placements, shape, copies, is_expert, is_replicated)


def collect_gradients(shards: list[Shard]) -> None:
    """Hand each local parameter its gradient, summed over all ranks that computed a part.

    A parameter that the loss does not reach (a sparse indexer) gets zeros: it has moments and a
    place in the checkpoint like every other, and its weight decays.
    Raises InfrastructureError when a parameter no longer has the storage it was given.
    """
    for shard in shards:
        is_shared = shard.local.dtype == shard.parameter.dtype  # else it is a master weight
        if is_shared and local_part(shard.parameter).data_ptr() != shard.local.data_ptr():
            raise InfrastructureError(
                f"the storage of {shard.name} moved under the optimizer",
                expected="a torch version whose fully_shard keeps local shards in place",
                hint="certify check-env",
            )
        gradient = shard.parameter.grad
        local = shard.local
        local.grad = torch.zeros_like(local) if gradient is None else _fitting(gradient, local)
        if shard.is_replicated and dist.get_world_size() > 1:
            dist.all_reduce(shard.local.grad)


def _fitting(gradient: Any, local: nn.Parameter) -> torch.Tensor:
    """The local gradient in a type that `local` may hold."""
    part = local_part(gradient)
    free = getattr(local, "grad_dtype", local.dtype) is None
    return part if free else part.to(local.dtype)


def clear_gradients(shards: list[Shard]) -> None:
    """Forget the gradients of both views."""
    for shard in shards:
        shard.local.grad = None
        shard.parameter.grad = None


def canonical_owner(model: nn.Module, shard: Shard) -> type:
    """The class of the module that owns a parameter."""
    return type(model.get_submodule(shard.name.rpartition(".")[0]))
