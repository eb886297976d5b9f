"""Entry point of the backend: opens the journal, then hands over to `train`.

megatron is imported late: the record file must exist before anything can fail, and on a CPU the
compatibility of `cpu` must come first, on an NPU MindSpeed's adaptor.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import TYPE_CHECKING

import torch.distributed as dist

from certify.errors import InfrastructureError
from runner import process_group
from runner.backends.mcore import limits, versions
from runner.device import Device
from runner.journal import journal

if TYPE_CHECKING:
    from certify.runspec import RunSpec


def run(spec: RunSpec) -> int:
    """Train one run to its last step. Returns 0.

    Raises CertifyError for what the user can correct, after an End record with the reason.
    """
    with journal(spec) as book:
        limits.check(spec)
        versions.require_supported()
        if spec.checkpoint.save_steps or spec.checkpoint.resume_from is not None:
            versions.require_for_checkpoints()
        device = Device(spec.device, int(os.environ.get("LOCAL_RANK", "0")))
        device.configure(spec.deterministic, spec.threads)
        for message in _FOR_MEGATRON:
            warnings.filterwarnings("ignore", message)
        joined = process_group.join(spec.world_size, device, book)
        try:
            if device.name == "cpu":
                from runner.backends.mcore import cpu

                cpu.apply()
            if device.name == "npu":
                _adapt()
            from runner.backends.mcore import train

            train.train(spec, book, device)
        finally:
            if joined:
                dist.destroy_process_group()
    return 0


# What torch tells the authors of Megatron, at every collective and every clipping.
_FOR_MEGATRON = (
    r".*`torch\.distributed\.\w+` is deprecated",
    r"The \.grad attribute of a Tensor that is not a leaf Tensor is being accessed",
)


def _adapt() -> None:
    """MindSpeed's adaptor, before the first import of megatron, as upstream's scripts do."""
    try:
        importlib.import_module("mindspeed.megatron_adaptor")
    except ImportError as error:
        raise InfrastructureError(
            f"MindSpeed cannot be imported: {error}",
            where="the mcore backend on npu",
            expected="the MindSpeed release that fits the installed megatron-core",
            hint="certify check-env --for RECIPE --backend mcore",
        ) from None
