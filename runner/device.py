"""One device type behind one small class: cpu, cuda or npu.

Nothing else in the runner asks which accelerator it is on.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

import torch

from certify.errors import InfrastructureError, UsageError

# device type -> backend of its process groups
PROCESS_GROUP_BACKENDS = {"cpu": "gloo", "cuda": "nccl", "npu": "hccl"}


class Device:
    """The device of this process.

    name: cpu, cuda or npu; torch_device: with the index of this local rank.
    Raises UsageError for another name, InfrastructureError when the device is not there.
    """

    def __init__(self, name: str, local_rank: int = 0) -> None:
        if name not in PROCESS_GROUP_BACKENDS:
            raise UsageError(
                f"unknown device {name!r}",
                where="device",
                expected=", ".join(PROCESS_GROUP_BACKENDS),
            )
        self.name = name
        self.process_group_backend = PROCESS_GROUP_BACKENDS[name]
        if name == "npu":
            _import_torch_npu()
        self._module: Any = None if name == "cpu" else getattr(torch, name)
        if self._module is None:
            self.torch_device = torch.device("cpu")
            return
        count = self._module.device_count() if self._module.is_available() else 0
        if local_rank >= count:
            raise InfrastructureError(
                f"local rank {local_rank} has no {name} device: {count} visible",
                hint="start fewer processes on this node, or use --device cpu",
            )
        self.torch_device = torch.device(name, local_rank)
        self._module.set_device(self.torch_device)

    @property
    def product(self) -> str:
        """Name of the chip: the driver's, or the processor's model name."""
        if self._module is not None:
            return str(self._module.get_device_name(self.torch_device))
        return _processor_name()

    @property
    def sum_dtype(self) -> torch.dtype:
        """Type in which scalars are added up over ranks: HCCL does not reduce float64."""
        return torch.float32 if self.name == "npu" else torch.float64

    def synchronize(self) -> None:
        """Wait for all queued work, so that a clock read next is a true mark."""
        if self._module is not None:
            self._module.synchronize()

    def peak_bytes(self) -> int:
        """Highest memory so far: allocated on the device, or resident for the CPU."""
        if self._module is not None:
            return int(self._module.max_memory_allocated(self.torch_device))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return int(peak if sys.platform == "darwin" else peak * 1024)

    def get_rng_state(self) -> torch.Tensor | None:
        """State of the device's own generator; None for the CPU, whose generator is torch's."""
        if self._module is None:
            return None
        state: torch.Tensor = self._module.get_rng_state(self.torch_device)
        return state

    def set_rng_state(self, state: torch.Tensor) -> None:
        """Restore what `get_rng_state` returned."""
        if self._module is not None:
            self._module.set_rng_state(state, self.torch_device)

    def configure(self, deterministic: bool, threads: int) -> None:
        """Full precision and, where asked for, bitwise repeatable kernels and collectives.

        Call before the first kernel and before the process group is made.
        """
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("highest")
        if self.name == "cuda":
            torch.backends.cudnn.allow_tf32 = False
        if self.name == "npu":
            # Both default to a 19-bit format for float32 inputs.
            self._module.matmul.allow_hf32 = False
            self._module.conv.allow_hf32 = False
        if deterministic:
            # Read by the libraries when they start, hence set here and not only by a launcher.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            os.environ.setdefault("HCCL_DETERMINISTIC", "true")
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False

    def effective(self) -> dict[str, Any]:
        """Numerical settings read back from the libraries."""
        values: dict[str, Any] = {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        }
        if self.name == "cpu":
            values["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
        if self.name == "cuda":
            values["cuda_matmul_allow_tf32"] = torch.backends.cuda.matmul.allow_tf32
            values["cudnn_allow_tf32"] = torch.backends.cudnn.allow_tf32
        if self.name == "npu":
            values["matmul_allow_hf32"] = bool(self._module.matmul.allow_hf32)
            values["conv_allow_hf32"] = bool(self._module.conv.allow_hf32)
        return values


def _import_torch_npu() -> None:
    try:
        import torch_npu  # noqa: F401  (registers torch.npu and the hccl backend)
    except ImportError as error:
        raise InfrastructureError(
            f"torch_npu cannot be imported: {error}",
            expected="a torch_npu built for this torch, and CANN's set_env.sh sourced",
            hint="certify check-env",
        ) from None


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()
