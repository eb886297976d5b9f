"""Records of what this side runs, read back from the live objects."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from megatron.core.tensor_parallel.cross_entropy import VocabParallelCrossEntropy

from runner import environment as read_back
from runner.backends.mcore import cpu, parallel, state

if TYPE_CHECKING:
    from certify.records import Component, Environment, Modules
    from certify.runspec import RunSpec
    from runner.backends.mcore.model import Parts
    from runner.backends.mcore.placement import Place
    from runner.device import Device


def environment(device: Device) -> Environment:
    """The Environment record; effective also lists the patches of `cpu` (none on CUDA)."""
    found = read_back.environment(device)
    effective = {**found.effective, "megatron_patches": list(cpu.applied())}
    return dataclasses.replace(found, effective=effective)


def components(parts: Parts, places: list[Place], spec: RunSpec) -> list[Component]:
    """Model, optimizer, scheduler and loss, with their hyper-parameters as they are in force
    (collective)."""
    config, scheduler = parts.models[0].config, parts.scheduler
    inner = parts.inner[0]
    base = type(inner.optimizer)
    groups = [group for one in parts.inner for group in one.optimizer.param_groups]
    decayed = max(groups, key=lambda group: group["weight_decay"])
    moe = bool(config.num_moe_experts)
    model = {
        "num_parameters": sum(
            parallel.everyone(sum(place.numel for place in places if place.is_first))
        ),
        "num_layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "aux_loss_coef": config.moe_aux_loss_coeff if moe else 0.0,
        # One micro-batch on one data-parallel rank is both of Megatron's formulas (`limits`).
        "aux_loss_formula": spec.training.aux_loss_formula if moe else None,
        "layers_here": sum(len(model.decoder.layers) for model in parts.models),
        "moe_dispatcher": config.moe_token_dispatcher_type if moe else None,
        "recompute": config.recompute_granularity,
        "held_by_rank": parallel.everyone(held(parts)),
    }
    optimizer = {
        "base": f"{base.__module__}.{base.__qualname__}",
        "beta1": decayed["betas"][0],
        "beta2": decayed["betas"][1],
        "eps": decayed["eps"],
        "weight_decay": decayed["weight_decay"],
        "clip_grad": inner.config.clip_grad,
        "decayed_parameters": state.decayed_parameters(parts, places),
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
        read_back.component("model", parts.models[0], model),
        read_back.component("optimizer", inner, optimizer),
        read_back.component("scheduler", scheduler, schedule),
        read_back.component("loss", VocabParallelCrossEntropy, loss),
    ]


def held(parts: Parts) -> dict[str, int]:
    """Elements on this rank: parameters, gradient buffers (padding included), and what its
    optimizers update (each with two moments)."""
    buffers = [
        buffer
        for chunk in parts.chunks
        for buffer in (*chunk.buffers, *chunk.expert_parallel_buffers)
    ]
    updated = [
        parameter
        for inner in parts.inner
        for group in inner.optimizer.param_groups
        for parameter in group["params"]
    ]
    return {
        "parameters": sum(p.numel() for model in parts.models for p in model.parameters()),
        "gradients": sum(buffer.grad_data.numel() for buffer in buffers),
        "optimizer": sum(parameter.numel() for parameter in updated),
    }


def modules(parts: Parts) -> Modules:
    """Packages that are loaded now, and the classes that own what the optimizer holds.

    The model's own class is named among them although its parts own the tensors.
    """
    owners = {
        type(module)
        for model in parts.models
        for module in model.modules()
        if any(p.requires_grad for p in module.parameters(recurse=False))
    }
    return read_back.modules({type(parts.models[0]), *owners})
