"""Megatron-Core on a CPU: every patch that this backend applies, with its reason.

Megatron-Core is written for CUDA and names the device ``cuda`` in many places. Where the
configuration offers a switch (``use_cpu_initialization``, no fusions), `config` uses it; what is
left is listed in `PATCHES` and applied by `apply`, on a CPU only. On CUDA nothing is patched.

No patch touches arithmetic: each redirects an allocation to the CPU, or removes a compiler or a
kernel library that a CPU does not have. Inside Megatron's modules the name ``torch`` is replaced
by a view of torch whose CUDA device is the CPU, so that the rest of the process keeps the real
one (`cpu_torch`).
"""

from __future__ import annotations

import importlib
import sys
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from certify.errors import InfrastructureError
from runner.backends.mcore import versions
from runner.backends.mcore.cpu_torch import CpuTorch

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Patch:
    """One deviation from stock Megatron-Core. versions: the releases that need it."""

    target: str
    versions: str
    reason: str
    apply: Callable[[], None]


_VIEW = CpuTorch()


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
            importlib.import_module("megatron.core.dist_checkpointing")
    finally:
        torch.compile = compile_


def _no_te_gemm() -> None:
    moe_utils = importlib.import_module("megatron.core.transformer.moe.moe_utils")
    if not hasattr(moe_utils, "te_general_gemm"):
        vars(moe_utils)["te_general_gemm"] = None


def _no_te_linear() -> None:
    latent = importlib.import_module("megatron.core.transformer.multi_latent_attention")
    if find_spec("transformer_engine") is None:
        vars(latent)["HAVE_TE"] = False


def _splits_as_lists() -> None:
    dispatcher = importlib.import_module("megatron.core.transformer.moe.token_dispatcher")
    real = dispatcher.maybe_move_tensor_to_cpu

    def move(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
        if as_numpy and isinstance(tensor, torch.Tensor):
            return tensor.numpy()
        return real(tensor, as_numpy=as_numpy)

    vars(dispatcher)["maybe_move_tensor_to_cpu"] = move


def _one_generator() -> None:
    random = importlib.import_module("megatron.core.tensor_parallel.random")

    def get(*_: Any, **__: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def keep(*_: Any, **__: Any) -> None:
        # Megatron restores the generator of the CPU beside this one.
        return None

    vars(random).update(_get_cuda_rng_state=get, _set_cuda_rng_state=keep)


def _name_types_as_cuda() -> None:
    real = torch.Tensor.type

    def type_(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        answer = real(self, *args, **kwargs)
        if isinstance(answer, str) and answer.startswith("torch.") and self.is_floating_point():
            return answer.replace("torch.", "torch.cuda.", 1)
        return answer

    # mypy cannot see that a method of a C type may be assigned.
    torch.Tensor.type = type_


def _stay_on_cpu() -> None:
    def cuda(self: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return self

    torch.Tensor.cuda = cuda


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
            (
                "megatron.core.models.common.embeddings.yarn_rotary_pos_embedding",
                "allocating its frequencies",
            ),
            ("megatron.core.tensor_parallel.layers", "buffers of its linear layers"),
            ("megatron.core.tensor_parallel.mappings", "buffers of its collectives"),
            ("megatron.core.pipeline_parallel.p2p_communication", "what a stage receives"),
            ("megatron.core.distributed.distributed_data_parallel", "its communication stream"),
            ("megatron.core.transformer.moe.moe_utils", "the auxiliary loss tracker"),
            ("megatron.core.transformer.moe.token_dispatcher", "the stream of its copies"),
            ("megatron.core.optimizer.distrib_optimizer", "optimizer state that is loaded"),
            ("megatron.core.dist_checkpointing.strategies.async_utils", "agreeing on a save"),
            ("megatron.core.dist_checkpointing.strategies.filesystem_async", "synchronising"),
            ("megatron.core.dist_checkpointing.strategies.state_dict_saver", "counting failures"),
        )
    ),
    Patch(
        "megatron.core.transformer.moe.moe_utils.te_general_gemm",
        versions.RANGE,
        "without Transformer Engine the name is read but never defined: NameError in the router",
        _no_te_gemm,
    ),
    Patch(
        "megatron.core.transformer.multi_latent_attention.HAVE_TE",
        versions.RANGE,
        "without Transformer Engine its classes are stand-ins and yet taken for real: TypeError in"
        " latent attention",
        _no_te_linear,
    ),
    Patch(
        "megatron.core.transformer.moe.token_dispatcher.maybe_move_tensor_to_cpu",
        versions.RANGE,
        "the all-to-all dispatcher turns the sizes of its parts into numpy only where they lie on"
        " CUDA; a collective takes no tensors for them",
        _splits_as_lists,
    ),
    Patch(
        "megatron.core.tensor_parallel.random: the CUDA generator",
        versions.RANGE,
        "recompute saves and restores it; a CPU has one generator, which Megatron restores itself",
        _one_generator,
    ),
    Patch(
        "torch.Tensor.cuda()",
        versions.RANGE,
        "the last stage moves its copy of tied embeddings, clipping its norm; both stay here",
        _stay_on_cpu,
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
