"""Megatron-Core on a CPU: every patch that this backend applies, with its reason.

Megatron-Core is written for CUDA and names the device ``cuda`` in many places. Where the
configuration offers a switch (``use_cpu_initialization``, no fusions), `config` uses it; what is
left is listed in `PATCHES` and applied by `apply`, on a CPU only. On CUDA nothing is patched.

No patch touches arithmetic: each redirects an allocation to the CPU, or removes a compiler or a
kernel library that a CPU does not have. Inside Megatron's modules the name ``torch`` is replaced
by a view of torch whose CUDA device is the CPU, so that the rest of the process keeps the real
one. The list covers one rank; the all-to-all dispatcher and the distributed optimizer need more.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from certify.errors import InfrastructureError
from runner.backends.mcore import versions

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Patch:
    """One deviation from stock Megatron-Core. versions: the releases that need it."""

    target: str
    versions: str
    reason: str
    apply: Callable[[], None]


class _CudaIsCpu(types.ModuleType):
    """``torch.cuda`` for Megatron's modules: the current device is the CPU."""

    def __init__(self) -> None:
        super().__init__("torch.cuda")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cuda, name)

    @staticmethod
    def current_device() -> torch.device:
        return CPU


def _on_cpu(factory: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def create(*args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("device") == "cuda":
            kwargs["device"] = CPU
        return factory(*args, **kwargs)

    return create


class _CpuTorch(types.ModuleType):
    """torch as Megatron's modules see it: tensors asked for on ``cuda`` are made on the CPU."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.cuda = _CudaIsCpu()
        self.zeros = _on_cpu(torch.zeros)
        self.ones = _on_cpu(torch.ones)
        self.tensor = _on_cpu(torch.tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


_VIEW = _CpuTorch()


def _see_cpu(module: str) -> Callable[[], None]:
    def replace() -> None:
        vars(importlib.import_module(module))["torch"] = _VIEW

    return replace


def _import_without_compiler() -> None:
    if "megatron.core" in sys.modules:
        raise InfrastructureError(
            "megatron.core was imported before its CPU compatibility was applied",
            where="runner.backends.mcore.cpu",
            expected="a process in which nothing else imports megatron first",
        )
    compile_ = torch.compile

    def plain(function: Any = None, **_: Any) -> Any:
        return function if function is not None else plain

    torch.compile = plain
    try:
        with warnings.catch_warnings():
            # Apex and Transformer Engine are absent by design here; each module says so once.
            warnings.simplefilter("ignore")
            importlib.import_module("megatron.core.models.gpt.gpt_model")
            importlib.import_module("megatron.core.models.gpt.gpt_layer_specs")
            importlib.import_module("megatron.core.optimizer")
            importlib.import_module("megatron.core.pipeline_parallel.schedules")
    finally:
        torch.compile = compile_


def _no_te_gemm() -> None:
    moe_utils = importlib.import_module("megatron.core.transformer.moe.moe_utils")
    if not hasattr(moe_utils, "te_general_gemm"):
        vars(moe_utils)["te_general_gemm"] = None


def _name_types_as_cuda() -> None:
    real = torch.Tensor.type

    def type_(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        answer = real(self, *args, **kwargs)
        if isinstance(answer, str) and answer.startswith("torch.") and self.is_floating_point():
            return answer.replace("torch.", "torch.cuda.", 1)
        return answer

    # mypy cannot see that a method of a C type may be assigned.
    torch.Tensor.type = type_


_DEVICE = "names the CUDA device in "
PATCHES: tuple[Patch, ...] = (
    Patch(
        "torch.compile while megatron.core is imported",
        versions.RANGE,
        "about thirty element-wise helpers are compiled at import time: a C++ compiler would be"
        " needed and the import takes three times as long; they run eagerly instead",
        _import_without_compiler,
    ),
    *(
        Patch(f"{module}: torch", versions.RANGE, _DEVICE + what, _see_cpu(module))
        for module, what in (
            ("megatron.core.utils", "the global memory buffer of attention scores"),
            ("megatron.core.pipeline_parallel.schedules", "the token counter"),
            ("megatron.core.distributed.param_and_grad_buffer", "the gradient buffer"),
            ("megatron.core.optimizer.optimizer", "the loss scale"),
            ("megatron.core.optimizer.clip_grads", "the overflow buffers of its multi-tensor ops"),
            ("megatron.core.transformer.utils", "the causal mask"),
            ("megatron.core.transformer.moe.router", "moving its weight at the first call"),
            ("megatron.core.models.common.embeddings.rotary_pos_embedding", "moving inv_freq"),
        )
    ),
    Patch(
        "megatron.core.transformer.moe.moe_utils.te_general_gemm",
        versions.RANGE,
        "without Transformer Engine the name is read but never defined: NameError in the router",
        _no_te_gemm,
    ),
    Patch(
        "torch.Tensor.type()",
        versions.RANGE,
        "gradient clipping asserts the type name torch.cuda.FloatTensor; CPU tensors answer so",
        _name_types_as_cuda,
    ),
)

_applied: list[str] = []


def apply() -> tuple[str, ...]:
    """Import megatron.core for the CPU and patch it, once per process. Returns the targets.

    Raises InfrastructureError for a missing or unchecked release, and when megatron.core was
    imported before.
    """
    versions.require_supported()
    if not _applied:
        for patch in PATCHES:
            patch.apply()
            _applied.append(patch.target)
    return tuple(_applied)


def applied() -> tuple[str, ...]:
    """The targets that were patched in this process; empty on CUDA."""
    return tuple(_applied)
