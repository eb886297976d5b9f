"""Megatron's parallel state over the process group of the run, and its random generators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.tensor_parallel import random as mcore_random

from runner import environment

if TYPE_CHECKING:
    from certify.records import Topology
    from certify.runspec import RunSpec
    from runner.device import Device

T = TypeVar("T")

# Name in the topology record -> Megatron's getter of the live group.
_GROUPS = {
    "world": lambda: dist.group.WORLD,
    "tp": parallel_state.get_tensor_model_parallel_group,
    "pp": parallel_state.get_pipeline_model_parallel_group,
    "dp": parallel_state.get_data_parallel_group,
    "cp": parallel_state.get_context_parallel_group,
    "ep": parallel_state.get_expert_model_parallel_group,
    "edp": parallel_state.get_expert_data_parallel_group,
}


def start(spec: RunSpec, device: Device) -> None:
    """Build Megatron's groups in the process group that this process has, and seed its RNG."""
    p = spec.parallel
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=p.tp_size,
        pipeline_model_parallel_size=p.pp_size,
        virtual_pipeline_model_parallel_size=p.vpp_size if p.vpp_size > 1 else None,
        context_parallel_size=p.cp_size,
        expert_model_parallel_size=p.ep_size,
        create_gloo_process_groups=False,
    )
    if device.name == "cpu":
        # The tracker of inference forks to nothing: right because every dropout is 0, and the
        # training one asks CUDA for its random state.
        mcore_random.initialize_rng_tracker(inference_rng_tracker=True)
    else:
        mcore_random.model_parallel_cuda_manual_seed(spec.training.seed)


def stop() -> None:
    """Leave Megatron's groups."""
    parallel_state.destroy_model_parallel()


def groups() -> dict[str, Any]:
    """Name in the records -> live group of this rank."""
    return {name: get() for name, get in _GROUPS.items()}


def topology() -> Topology:
    """The live groups of this rank."""
    return environment.topology(groups())


def data_rank() -> tuple[int, int]:
    """(this rank's place among the data-parallel ranks, their number)."""
    group = parallel_state.get_data_parallel_group()
    return dist.get_rank(group), dist.get_world_size(group)


def is_last_stage() -> bool:
    """Whether this rank holds the last layers of the model, and so the loss."""
    return bool(parallel_state.is_pipeline_last_stage(ignore_virtual=True))


def first_of_tensor_parallel() -> bool:
    """Whether this rank is the first of its tensor-parallel group."""
    return int(parallel_state.get_tensor_model_parallel_rank()) == 0


def everyone(value: T, group: Any = None) -> list[T]:
    """What each rank of a group (None: all) has, in the order of its ranks (collective)."""
    found: list[Any] = [None] * dist.get_world_size(group)
    if len(found) == 1:
        return [value]
    dist.all_gather_object(found, value, group=group)
    return found
