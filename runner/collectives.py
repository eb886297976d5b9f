"""The collectives that training will use, each tested against arithmetic before it is trusted.

One gloo version answers an average with the sum, silently; other backends lack operations and
emulate them. A wrong one found here stops the run before it trains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from certify.errors import InfrastructureError
from certify.records import Collective
from runner.compat import all_gather_single, reduce_scatter_single, use_sum_reductions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.callpoints import Fault
    from runner.device import Device
    from runner.parallel.mesh import Meshes

LENGTH = 4  # elements per rank; all values stay small integers, exact in every type used


def gather_bytes(part: torch.Tensor, group: Any = None) -> torch.Tensor:
    """The parts of all ranks, stacked [ranks, *part.shape]. part: equal shape and any type.

    Bytes travel, because gloo does not know every type.
    """
    flat = part.contiguous().view(-1).view(torch.uint8)
    ranks = dist.get_world_size(group)
    out = torch.empty(ranks * flat.numel(), dtype=torch.uint8, device=flat.device)
    all_gather_single(out, flat, group=group)
    return out.view(part.dtype).view(ranks, *part.shape)


def _values(rank: int, length: int, dtype: torch.dtype, device: Any) -> torch.Tensor:
    return torch.arange(1, length + 1, device=device).to(dtype) * (rank + 1)


class SelfTest:
    """Tests on one group. Each method returns (expected, found) tensors."""

    def __init__(self, group: Any, device: Any, fault: Fault) -> None:
        self.group, self.device, self.fault = group, device, fault
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)

    def _sum(self, length: int, dtype: torch.dtype) -> torch.Tensor:
        parts = [_values(r, length, dtype, self.device) for r in range(self.ranks)]
        return torch.stack(parts).sum(0)

    def all_reduce_sum(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Every rank gets the sum."""
        found = _values(self.rank, LENGTH, dtype, self.device)
        dist.all_reduce(found, group=self.group)
        return self._sum(LENGTH, dtype), self.fault.collective(found, self.ranks)

    def all_reduce_max(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Every rank gets the largest."""
        found = _values(self.rank, LENGTH, dtype, self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.group)
        return _values(self.ranks - 1, LENGTH, dtype, self.device), found

    def reduce_scatter_sum(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Rank r gets the r-th part of the sum."""
        length = LENGTH * self.ranks
        found = torch.zeros(LENGTH, dtype=dtype, device=self.device)
        reduce_scatter_single(
            found, _values(self.rank, length, dtype, self.device), group=self.group
        )
        mine = slice(self.rank * LENGTH, (self.rank + 1) * LENGTH)
        return self._sum(length, dtype)[mine], self.fault.collective(found, self.ranks)

    def all_gather(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Every rank gets all parts, in rank order."""
        found = torch.zeros(LENGTH * self.ranks, dtype=dtype, device=self.device)
        all_gather_single(found, _values(self.rank, LENGTH, dtype, self.device), group=self.group)
        parts = [_values(r, LENGTH, dtype, self.device) for r in range(self.ranks)]
        return torch.cat(parts), found

    def broadcast(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Every rank gets the values of the first."""
        found = _values(self.rank, LENGTH, dtype, self.device)
        dist.broadcast(found, dist.get_global_rank(self.group, 0), group=self.group)
        return _values(0, LENGTH, dtype, self.device), found

    def send_receive(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Every rank gets the values of the one before it, in a ring."""
        before, after = ((self.rank + step) % self.ranks for step in (-1, 1))
        found = torch.zeros(LENGTH, dtype=dtype, device=self.device)
        mine = _values(self.rank, LENGTH, dtype, self.device)
        work = [
            dist.isend(mine, dist.get_global_rank(self.group, after), group=self.group),
            dist.irecv(found, dist.get_global_rank(self.group, before), group=self.group),
        ]
        for one in work:
            if one is not None:
                one.wait()
        return _values(before, LENGTH, dtype, self.device), found

    def all_to_all_uneven(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Rank r sends (r + d) % ranks elements to rank d: uneven, some of them none."""
        send = [(self.rank + d) % self.ranks for d in range(self.ranks)]
        receive = [(s + self.rank) % self.ranks for s in range(self.ranks)]
        out = torch.cat(
            [torch.full((n,), 10 * self.rank + d, dtype=dtype) for d, n in enumerate(send)]
        ).to(self.device)
        found = torch.zeros(sum(receive), dtype=dtype, device=self.device)
        dist.all_to_all_single(found, out, receive, send, group=self.group)
        expected = [
            torch.full((n,), 10 * s + self.rank, dtype=dtype) for s, n in enumerate(receive)
        ]
        return torch.cat(expected).to(self.device), found


def fsdp_gradient_sum(
    mesh: Any, device: torch.device, fault: Fault
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient that fully_shard itself delivers on a mesh of one dimension: the sum over
    ranks, divided by nothing."""
    from torch.distributed.fsdp import fully_shard

    ranks = mesh.size()
    layer = nn.Linear(LENGTH, ranks, bias=False, device=device)
    fully_shard(layer, mesh=mesh)
    use_sum_reductions(layer)
    # The gradient of every row is the rank's own input.
    inputs = [_values(r, LENGTH, torch.float32, device) for r in range(ranks)]
    layer(inputs[mesh.get_local_rank()][None]).sum().backward()
    gradient: Any = layer.weight.grad
    found = gradient.to_local()
    return torch.stack(inputs).sum(0).expand_as(found), fault.collective(found, ranks)


def _planned(meshes: Meshes, device: Device, reduce: torch.dtype, fault: Fault) -> Iterator[Any]:
    """(operation, group name, dtype, test) of every operation in use."""
    here = device.torch_device
    groups = {name: SelfTest(g, here, fault) for name, g in meshes.groups().items()}
    f32, i64, u8 = torch.float32, torch.int64, torch.uint8
    world = groups["world"]
    for dtype in dict.fromkeys((f32, device.sum_dtype)):
        yield "all_reduce_sum", "world", dtype, world.all_reduce_sum
        yield "all_reduce_max", "world", dtype, world.all_reduce_max
    yield "all_gather", "world", u8, world.all_gather
    yield "broadcast", "world", i64, world.broadcast
    for name in ("fsdp", "ep_fsdp"):
        if name in groups:
            yield "reduce_scatter_sum", name, reduce, groups[name].reduce_scatter_sum
            yield "all_gather", name, f32, groups[name].all_gather
    for name in ("replicate", "expert_replicate"):
        if name in groups:
            yield "all_reduce_sum", name, reduce, groups[name].all_reduce_sum
    if "ep" in groups:
        for dtype in (f32, i64):
            yield "all_to_all_uneven", "ep", dtype, groups["ep"].all_to_all_uneven


def self_test(
    meshes: Meshes,
    device: Device,
    reduce_dtype: torch.dtype,
    fault: Fault,
    write: Callable[[Collective], None],
) -> None:
    """Test every planned collective and write a record of each.

    Raises InfrastructureError after the last test when one was wrong, naming all of them.
    """

    def outcomes() -> Iterator[Any]:
        for op, group, dtype, test in _planned(meshes, device, reduce_dtype, fault):
            yield op, group, dtype, test(dtype)
        for name, mesh in (("fsdp", meshes.dense), ("ep_fsdp", meshes.expert)):
            if mesh is not None:
                outcome = fsdp_gradient_sum(mesh[name], device.torch_device, fault)
                yield "fsdp_gradient_sum", name, torch.float32, outcome

    require_right(outcomes(), write)


def require_right(outcomes: Iterator[Any], write: Callable[[Collective], None]) -> None:
    """Write a record of every outcome: (operation, group, dtype, (expected, found)).

    Raises InfrastructureError after the last one when any was wrong, naming all of them.
    """
    wrong: list[Collective] = []
    for op, group, dtype, outcome in outcomes:
        expected, found = (t.double().flatten().tolist() for t in outcome)
        record = Collective(
            op, group, str(dtype).removeprefix("torch."), expected == found,
            "" if expected == found else str(expected), "" if expected == found else str(found),
        )  # fmt: skip
        write(record)
        if not record.ok:
            wrong.append(record)
    if wrong:
        first = wrong[0]
        names = ", ".join(f"{record.op} on {record.group} ({record.dtype})" for record in wrong)
        raise InfrastructureError(
            f"a collective returns wrong values: {names}",
            where=f"process group {first.group!r}, backend {dist.get_backend()}",
            expected=f"{first.expected}, found {first.found}",
            hint="training on it would be silently wrong: change torch or the communication "
            "library (certify check-env)",
        )
