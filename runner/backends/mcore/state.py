"""The training state under canonical names: gradients, moments, digests of all of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

from certify.records import root_digest
from runner import rng
from runner.backends.mcore import parallel, weights

if TYPE_CHECKING:
    from torch import Tensor

    from runner.backends.mcore.mapping import WeightMap
    from runner.backends.mcore.model import Parts
    from runner.backends.mcore.placement import Place
    from runner.device import Device

MOMENTS = ("exp_avg", "exp_avg_sq")


def gather_gradients(parts: Parts) -> None:
    """With the distributed optimizer a rank has reduced its own part of each bucket only: fetch
    the others', so that every `main_grad` is whole (collective). The optimizer reads its own."""
    for chunk in parts.chunks:
        if not chunk.ddp_config.use_distributed_optimizer:
            continue
        for group in (*chunk.bucket_groups, *chunk.expert_parallel_bucket_groups):
            peers = group.intra_distributed_optimizer_instance_group
            for bucket in group.buckets:
                shards = list(bucket.grad_data.chunk(dist.get_world_size(peers)))
                dist.all_gather(shards, shards[dist.get_rank(peers)].clone(), group=peers)


def local_state(parts: Parts, place: Place) -> tuple[dict[str, Any], int, int] | None:
    """(torch's optimizer state, first, end): of which flat elements of the parameter this rank
    holds it; None where it holds none of it."""
    parameter = place.parameter
    for inner in parts.inner:
        if isinstance(inner, DistributedOptimizer):
            if parameter not in inner.model_param_group_index_map:
                continue
            index, order = inner.model_param_group_index_map[parameter]
            main = inner.optimizer.param_groups[index]["params"][order]
            span = inner._get_model_param_range_map(parameter)["param"]
            return inner.optimizer.state.get(main, {}), span.start, span.end
        if parameter in inner.optimizer.state:
            return inner.optimizer.state[parameter], 0, parameter.numel()
    return None


def moment(parts: Parts, place: Place, key: str) -> Tensor:
    """This rank's part of a moment, whole over data parallel (collective in that group)."""
    found = local_state(parts, place)
    if found is not None and found[2] - found[1] == place.parameter.numel():
        whole: Tensor = found[0][key].view_as(place.parameter)
        if not any(isinstance(inner, DistributedOptimizer) for inner in parts.inner):
            return whole
    flat = torch.zeros(place.parameter.numel(), dtype=torch.float32, device=place.parameter.device)
    if found is not None:
        flat[found[1] : found[2]] = found[0][key].view(-1)
    # Every element comes from one rank: a sum of the bit patterns is exact, signed zeros too.
    dist.all_reduce(flat.view(torch.int32), group=place.data_group)
    return flat.view_as(place.parameter)


def decayed_parameters(parts: Parts, places: list[Place]) -> int:
    """Number of parameters of the whole model to which weight decay applies (collective)."""
    decays = {
        id(parameter)
        for inner in parts.inner
        for group in inner.optimizer.param_groups
        if group["weight_decay"] > 0
        for parameter in group["params"]
    }
    mine = 0
    for place in places:
        if place.is_copy or place.is_buffer:
            continue
        for held, elements in _held(parts, place):
            if id(held) in decays:
                mine += elements * place.numel // place.parameter.numel()
    return sum(parallel.everyone(mine if parallel.first_of_tensor_parallel() else 0))


def _held(parts: Parts, place: Place) -> list[tuple[Any, int]]:
    """(what an optimizer holds, its elements) for a parameter, once over data parallel."""
    for inner in parts.inner:
        if isinstance(inner, DistributedOptimizer):
            if place.parameter in inner.model_param_group_index_map:
                index, order = inner.model_param_group_index_map[place.parameter]
                main = inner.optimizer.param_groups[index]["params"][order]
                return [(main, main.numel())]
        elif dist.get_rank(place.data_group) == 0:
            return [(place.parameter, place.parameter.numel())]
    return []


def digests(
    parts: Parts, places: list[Place], names: WeightMap, device: Device, done: int
) -> dict[str, str]:
    """Digests of parameters, and after the first step of the optimizer's state too; done: steps
    trained, which is the data cursor (collective)."""

    def of(value: Any) -> str:
        return weights.digest(weights.canonical(places, names, value))

    found = {"params": of(lambda place: place.parameter.detach())}
    if any(parallel.everyone(any(place.is_buffer for place in places))):
        found["router_bias"] = of(
            lambda place: place.parameter.detach() if place.is_buffer else None
        )
    states = [s for inner in parts.inner for s in inner.optimizer.state.values()]
    if all(parallel.everyone(bool(states))):
        for key in MOMENTS:
            found[key] = of(
                lambda place, key=key: None if place.is_buffer else moment(parts, place, key)
            )
        found["optimizer_step"] = _scalars({float(state["step"]) for state in states})
    groups = [group for inner in parts.inner for group in inner.optimizer.param_groups]
    found["lr"] = _scalars({float(group["lr"]) for group in groups})
    found["weight_decay"] = _scalars({float(group["weight_decay"]) for group in groups})
    found["data_cursor"] = root_digest({"0": float(done).hex()})
    own = hashlib.sha256(rng.capture(device)).hexdigest()
    random = {f"rng.rank-{rank}": value for rank, value in enumerate(parallel.everyone(own))}
    return {**found, **random}


def _scalars(mine: set[float]) -> str:
    values = sorted(set().union(*parallel.everyone(mine)))
    return root_digest({str(i): value.hex() for i, value in enumerate(values)})
