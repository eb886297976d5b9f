"""The few places where supported versions of torch and transformers differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from runner import own

# Renamed in torch 2.13; the earlier names warn there.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def use_sum_reductions(module: Any) -> None:
    """Make one FSDP module add gradients over ranks and divide by nothing.

    torch 2.7 knows only the divide factor of the reduce-scatter; with factor 1 its PREMUL_SUM is
    a sum on every backend. Later versions would ask gloo and HCCL for PREMUL_SUM, which these
    lack, unless plain sums are forced.
    """
    if hasattr(module, "set_gradient_divide_factor"):
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
    else:
        module.set_reduce_scatter_divide_factor(1.0)


def choose_experts_implementation(config: Any, model_class: Any) -> None:
    """Select, on a transformers configuration, how a class computes its fused experts.

    ``grouped_mm`` where torch has that kernel: its result does not depend on the order in which
    experts are visited. ``eager``, the plain loop, elsewhere. Dense classes and transformers 4
    have no such choice.
    """
    can_choose = getattr(model_class, "_can_set_experts_implementation", None)
    if can_choose is not None and can_choose():
        has_kernel = hasattr(nn.functional, "grouped_mm") or hasattr(torch, "_grouped_mm")
        config._experts_implementation = "grouped_mm" if has_kernel else "eager"


def attention_of(model_class: Any, wanted: str) -> str:
    """The attention implementation that a stock class is built with.

    Some families (attention sinks, soft-capped scores) have no sdpa form: they get ``eager``, the
    plain formula. What a model really uses is recorded.
    """
    if wanted == "sdpa" and not getattr(model_class, "_supports_sdpa", True):
        return "eager"
    return wanted


def router_recorders(model: nn.Module) -> list[Any]:
    """What a stock class says about which of its modules emit router logits; empty for dense.

    transformers keeps this table for ``output_router_logits``; entries have target_class, index
    (into the module's output) and layer_name (a suffix of the module's name, or None).
    """
    table = getattr(model, "_can_record_outputs", None) or {}
    found = table.get("router_logits", [])
    return list(found) if isinstance(found, (list, tuple)) else [found]


def to_published_names(model: Any, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors in memory, as the stock ``save_pretrained`` would name and divide them.

    transformers 4 holds published tensors in memory: nothing changes there.
    """
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return tensors
    found: dict[str, torch.Tensor] = revert_weight_conversion(model, tensors)
    return found


def model_class(model: Any) -> type[Any]:
    """The class of a model: fully_shard puts one of its own in front of it."""
    places = ("transformers.", "runner.own.")
    kinds = [kind for kind in type(model).__mro__ if kind.__module__.startswith(places)]
    return kinds[0] if kinds else type(model)


def stock_model(folder: str, attention: str, dtype: torch.dtype) -> Any:
    """A checkpoint folder as a user of transformers would load it, with the attention and the
    experts implementation that the runner chooses."""
    from transformers import AutoConfig, AutoModelForCausalLM

    for model_type in own.OWN:
        if f'"{model_type}"' in (Path(folder) / "config.json").read_text(encoding="utf-8"):
            own.register(model_type)
    config = AutoConfig.from_pretrained(folder)
    built = AutoModelForCausalLM._model_mapping[type(config)]
    choose_experts_implementation(config, built)
    return AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=dtype, attn_implementation=attention_of(built, attention)
    )
