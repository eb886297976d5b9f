"""Records of what a process is made of: Environment, Component, Modules, Topology.

Everything is read back from live objects and installed files, never copied from the spec.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.records import Component, Environment, Modules, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.device import Device

# Distributions whose version is recorded when they are installed.
DISTRIBUTIONS = (
    "torch",
    "torch_npu",
    "transformers",
    "megatron-core",
    "mindspeed",
    "mindspeed-llm",
    "numpy",
    "safetensors",
    "tokenizers",
    "triton",
    "triton-ascend",
    "ascend-certify",
)

# Top-level packages that tell one training stack from another.
PACKAGES_OF_INTEREST = (
    "torch",
    "torch_npu",
    "transformers",
    "megatron",
    "mindspeed",
    "mindspeed_llm",
    "transformer_engine",
    "apex",
    "accelerate",
    "deepspeed",
    "flash_attn",
    "triton",
)

# top-level package -> the distribution it comes from, where the names differ
_DISTRIBUTION_OF = {"megatron": "megatron-core", "runner": "ascend-certify"}

# Environment variables that change numbers or placement. Nothing else is recorded.
VARIABLE_ALLOW_LIST = (
    "ASCEND_LAUNCH_BLOCKING",
    "ASCEND_RT_VISIBLE_DEVICES",
    "CLOSE_MATMUL_K_SHIFT",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "HCCL_ALGO",
    "HCCL_DETERMINISTIC",
    "HF_HUB_OFFLINE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NPU_ALLOC_CONF",
    "RANK",
    "TASK_QUEUE_ENABLE",
    "TORCHELASTIC_RESTART_COUNT",
    "TRANSFORMERS_OFFLINE",
    "WORLD_SIZE",
)


@cache
def version_of(distribution: str) -> str | None:
    """Installed version, or None. Reads package metadata and imports nothing."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def environment(device: Device) -> Environment:
    """The Environment record of this process. Call after `Device.configure`."""
    versions = {name: version_of(name) for name in DISTRIBUTIONS}
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        device=device.name,
        device_name=device.product,
        packages={name: version for name, version in versions.items() if version is not None},
        effective=device.effective(),
        variables={n: os.environ[n] for n in VARIABLE_ALLOW_LIST if n in os.environ},
    )


def stock_class(cls: type) -> type:
    """The class that a parallel wrapper was derived from, or the class itself.

    `fully_shard` replaces the class of a module by one derived from FSDPModule and it.
    """
    names = {base.__name__ for base in cls.__mro__[1:]}
    if "FSDPModule" in names:
        return next(base for base in cls.__bases__ if base.__name__ != "FSDPModule")
    return cls


def component(part: str, subject: Any, effective: Mapping[str, Any]) -> Component:
    """Whose code does one part. subject: a class, function or object; effective: read back."""
    described = subject
    if not (inspect.isclass(subject) or inspect.isfunction(subject)):
        described = stock_class(type(subject))
    elif inspect.isclass(subject):
        described = stock_class(subject)
    module = described.__module__
    top = module.partition(".")[0]
    path = Path(inspect.getsourcefile(described) or "")
    depth = len(module.split(".")) + (1 if path.name == "__init__.py" else 0)
    return Component(
        part=part,
        class_name=described.__name__,
        module=module,
        file="/".join(path.parts[-depth:]),
        package=top,
        version=version_of(_DISTRIBUTION_OF.get(top, top)) or "unknown",
        source_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        effective=dict(effective),
    )


def modules(trained: Iterable[type]) -> Modules:
    """The Modules record. trained: classes that own a parameter given to the optimizer."""
    stock = {stock_class(cls) for cls in trained}
    return Modules(
        loaded=[name for name in PACKAGES_OF_INTEREST if name in sys.modules],
        trained_classes=sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in stock),
    )


def topology(groups: Mapping[str, Any]) -> Topology:
    """The Topology record. groups: name -> live process group; read from torch.distributed."""
    import torch.distributed as dist

    return Topology(
        world_size=dist.get_world_size(),
        groups={name: dist.get_process_group_ranks(group) for name, group in groups.items()},
        process_group_backend=dist.get_backend(),
    )
