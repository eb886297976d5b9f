"""Process groups of the mcore backend: torch.distributed, Megatron's parallel state, its RNG.

On one rank the store is in memory, so that no port is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.tensor_parallel import random as mcore_random

from runner import environment

if TYPE_CHECKING:
    from certify.records import Topology
    from runner.device import Device

# Name in the topology record -> Megatron's getter of the live group.
_GROUPS = {
    "world": lambda: dist.group.WORLD,
    "tp": parallel_state.get_tensor_model_parallel_group,
    "pp": parallel_state.get_pipeline_model_parallel_group,
    "dp": parallel_state.get_data_parallel_group,
    "cp": parallel_state.get_context_parallel_group,
    "ep": parallel_state.get_expert_model_parallel_group,
}


def start(device: Device, seed: int) -> None:
    """Join the process group, build Megatron's groups (all of size one) and seed its RNG."""
    backend = device.process_group_backend
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    if device.name == "cuda":
        mcore_random.model_parallel_cuda_manual_seed(seed)
    else:
        # The tracker of inference forks to nothing: right because every dropout is 0, and the
        # training one asks CUDA for its random state.
        mcore_random.initialize_rng_tracker(inference_rng_tracker=True)


def stop() -> None:
    """Leave the groups."""
    parallel_state.destroy_model_parallel()
    if dist.is_initialized():
        dist.destroy_process_group()


def topology() -> Topology:
    """The live groups of this rank."""
    return environment.topology({name: get() for name, get in _GROUPS.items()})
