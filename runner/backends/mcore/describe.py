"""Records of what this side runs, read back from the live objects."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from megatron.core.tensor_parallel.cross_entropy import VocabParallelCrossEntropy

from runner import environment as read_back
from runner.backends.mcore import cpu

if TYPE_CHECKING:
    from certify.records import Component, Environment, Modules
    from runner.backends.mcore.model import Parts
    from runner.device import Device


def environment(device: Device) -> Environment:
    """The Environment record; effective also lists the patches of `cpu` (none on CUDA)."""
    found = read_back.environment(device)
    effective = {**found.effective, "megatron_patches": list(cpu.applied())}
    return dataclasses.replace(found, effective=effective)


def components(parts: Parts) -> list[Component]:
    """Model, optimizer, scheduler and loss, with their hyper-parameters as they are in force."""
    config, scheduler = parts.model.config, parts.scheduler
    (inner,) = parts.optimizer.chained_optimizers
    base = type(inner.optimizer)
    decayed = max(parts.optimizer.param_groups, key=lambda group: group["weight_decay"])
    model = {
        "num_parameters": sum(p.numel() for p in parts.model.parameters()),
        "num_layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "aux_loss_coef": config.moe_aux_loss_coeff if config.num_moe_experts else 0.0,
        "aux_loss_formula": "megatron",
    }
    optimizer = {
        "base": f"{base.__module__}.{base.__qualname__}",
        "beta1": decayed["betas"][0],
        "beta2": decayed["betas"][1],
        "eps": decayed["eps"],
        "weight_decay": decayed["weight_decay"],
        "clip_grad": inner.config.clip_grad,
        "decayed_parameters": sum(
            p.numel()
            for group in parts.optimizer.param_groups
            if group["weight_decay"] > 0
            for p in group["params"]
        ),
    }
    schedule = {
        "init_lr": scheduler.init_lr,
        "max_lr": scheduler.max_lr,
        "min_lr": scheduler.min_lr,
        "warmup_steps": scheduler.lr_warmup_steps,
        "decay_steps": scheduler.lr_decay_steps,
        "schedule": scheduler.lr_decay_style,
    }
    loss = {"per_token_over_micro_batches": config.calculate_per_token_loss}
    return [
        read_back.component("model", parts.model, model),
        read_back.component("optimizer", inner, optimizer),
        read_back.component("scheduler", scheduler, schedule),
        read_back.component("loss", VocabParallelCrossEntropy, loss),
    ]


def modules(parts: Parts) -> Modules:
    """Packages that are loaded now, and the classes that own what the optimizer holds.

    The model's own class is named first among them although its parts own the tensors.
    """
    held = {id(p) for group in parts.optimizer.param_groups for p in group["params"]}
    owners = {
        type(module)
        for module in parts.model.modules()
        if any(id(p) in held for p in module.parameters(recurse=False))
    }
    return read_back.modules({type(parts.model), *owners})
