"""The faults of `runner.faults` that this backend carries out, on either side."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from certify.records import Writer
    from certify.runspec import RunSpec
    from runner.backends.mcore.model import Parts
    from runner.backends.mcore.placement import Place
    from runner.callpoints import Fault

WEIGHT = "reference-weight-1pct"
AUX_ZERO = "reference-aux-zero"
SCALE = 1.01
TENSOR = "decoder.layers.0.self_attention.linear_proj.weight"
PUBLISHED = "model.layers.0.self_attn.o_proj.weight"


@dataclasses.dataclass
class _Part:
    """A parameter in the form that the call point `gradients` expects."""

    local: Any
    is_expert: bool


@dataclasses.dataclass
class _Gradient:
    grad: Any


def on_spec(spec: RunSpec, fault: Fault) -> RunSpec:
    """The spec that is trained: with another coefficient of the auxiliary loss or rotary base."""
    coefficient = fault.aux_coefficient(spec.training.aux_loss_coef)
    if fault.name == AUX_ZERO:
        coefficient = 0.0
    training = dataclasses.replace(spec.training, aux_loss_coef=coefficient)
    config = fault.model_config(spec.model.hf_config)
    model = dataclasses.replace(spec.model, hf_config=config)
    return dataclasses.replace(spec, training=training, model=model)


def on_parts(parts: Parts, fault: Fault) -> None:
    """Acts on what was built: which parameters decay, which are known as divided."""
    if fault.decays("norm", 1):
        for inner in parts.inner:
            for group in inner.optimizer.param_groups:
                group["wd_mult"] = 1.0
        parts.scheduler.step(increment=0)
    for model in parts.models:
        for parameter in model.parameters():
            if hasattr(parameter, "tensor_model_parallel"):
                is_divided = fault.divided(parameter.tensor_model_parallel)
                parameter.tensor_model_parallel = is_divided


def on_weights(spec: RunSpec, places: list[Place], fault: Fault, writer: Writer) -> None:
    """Records the fault and injects WEIGHT: one weight tensor 1% larger. The output projection
    of the first layer's attention is taken: every family has it."""
    if not fault.name:
        return
    detail: dict[str, str | float] = {"fault": fault.name, "side": fault.side}
    if fault.name == WEIGHT:
        with torch.no_grad():
            for place in places:
                if place.name == TENSOR:
                    place.parameter.mul_(SCALE)
        detail |= {"tensor": PUBLISHED, "scale": SCALE}
    writer.event("fault_injected", 0, **detail)


def on_gradients(places: list[Place], fault: Fault, ep_size: int) -> None:
    """Local gradients after the backward pass, before clipping."""
    parts = [_Part(_Gradient(p.parameter.main_grad), p.is_expert) for p in places]
    fault.gradients(parts, ep_size)
