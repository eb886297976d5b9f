"""The faults of `runner.faults` that this side carries out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

from certify.errors import UsageError
from runner import faults as registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from certify.records import Writer
    from certify.runspec import RunSpec

WEIGHT = "reference-weight-1pct"
AUX_ZERO = "reference-aux-zero"
NAMES = (WEIGHT, AUX_ZERO)
SCALE = 1.01


def on_spec(spec: RunSpec) -> RunSpec:
    """The spec that is trained: AUX_ZERO trains without the auxiliary loss.

    Raises UsageError for an unknown fault and for one of the candidate side.
    """
    fault = registry.of_spec(spec)
    if fault.name and fault.name not in NAMES:
        raise UsageError(
            f"the mcore backend does not carry out the fault {fault.name!r}",
            where="spec.json: fault",
            expected="one of " + ", ".join(NAMES),
        )
    if spec.fault == AUX_ZERO:
        training = dataclasses.replace(spec.training, aux_loss_coef=0.0)
        return dataclasses.replace(spec, training=training)
    return spec


def on_weights(spec: RunSpec, parameters: Mapping[str, Tensor], writer: Writer) -> None:
    """Injects what is left and records it: WEIGHT makes one weight tensor 1% larger.

    parameters: canonical names -> views of the live parameters. The output projection of the
    first layer's attention is taken: every family has it and Megatron holds it unchanged, so
    that the view is the parameter.
    """
    if spec.fault is None:
        return
    detail: dict[str, str | float] = {"fault": spec.fault}
    if spec.fault == WEIGHT:
        name = "model.layers.0.self_attn.o_proj.weight"
        with torch.no_grad():
            parameters[name].mul_(SCALE)
        detail |= {"tensor": name, "scale": SCALE}
    writer.event("fault_injected", 0, **detail)
