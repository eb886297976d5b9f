"""A published recipe's training and layout, scaled down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.recipes.scale.families import WITHOUT_EXPERT_PARALLEL, is_moe
from certify.recipes.scale.model import Change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.recipes.scale.formulas import Config


def first(*values: Any) -> Any:
    """The first value that is not None."""
    return next((value for value in values if value is not None), None)


def scale_training(
    recipe: Mapping[str, Any], public: Config, scale: Mapping[str, Any]
) -> tuple[Config, list[Change]]:
    """(fields of the run spec's training, changes)."""
    script, batch, to = recipe["training"], recipe["batch"], scale["training"]
    steps = to["steps"]
    grown = script["lr"] * public["hidden_size"] / to["width_reference"]
    lr = min(max(grown, to["lr_floor"]), to["lr_ceiling"])
    floor_ratio = first(script.get("min_lr"), 0.0) / script["lr"]
    fraction = max(first(script.get("warmup_fraction"), 0.0), to["warmup_fraction_min"])
    warmup = max(1, round(fraction * steps))
    coefficient = first(
        script.get("router_aux_loss_coef"),
        (recipe.get("moe") or {}).get("aux_coeff"),
        public.get("router_aux_loss_coef"),
        0.0,
    )
    training = {
        "steps": steps,
        "global_batch": scale["data"]["global_batch"],
        "micro_batch": scale["data"]["global_batch"] // scale["parallel"]["world_size"],
        "lr": lr,
        "min_lr": lr * floor_ratio,
        "warmup_init_lr": lr / warmup,
        "warmup_steps": warmup,
        "decay_steps": steps,
        "schedule": first(script.get("schedule"), "cosine"),
        "weight_decay": first(script.get("weight_decay"), 0.0),
        "beta1": first(script.get("beta1"), 0.9),
        "beta2": first(script.get("beta2"), 0.95),
        "eps": first(script.get("eps"), 1e-8),
        "clip_grad": first(script.get("clip_grad"), 1.0),
        "seed": first(script.get("seed"), 42),
        "aux_loss_coef": float(coefficient) if is_moe(public) else 0.0,
        "aux_loss_formula": first(script.get("aux_loss_formula"), "megatron"),
    }
    rules = {
        "steps": "fixed; enough for the loss-curve intervals",
        "global_batch": "fixed",
        "lr": "published x hidden / scaled hidden, inside [floor, ceiling] of the scale",
        "min_lr": "published share of lr",
        "warmup_steps": "published fraction, at least the scale's",
        "warmup_init_lr": "lr / warm-up steps, so that the first step moves the weights",
        "aux_loss_coef": "script, else the model's public configuration",
        "aux_loss_formula": "recipe, else layer by layer as Megatron-Core computes it",
    }
    published = {**script, "global_batch": batch.get("global"), "clip_grad": script["clip_grad"]}
    published["aux_loss_coef"] = script.get("router_aux_loss_coef")
    published["warmup_steps"] = script.get("warmup_iters")
    changes = [
        Change(f"training.{key}", published.get(key), training[key], rules.get(key, "kept"))
        for key in training
        if key not in ("micro_batch", "decay_steps")
        and (key != "aux_loss_formula" or training["aux_loss_coef"])
    ]
    return training, changes


def _as_configured(published: Mapping[str, Any]) -> Config:
    """What a configuration of the user's own says of recomputation and resharding. The scaled
    runs of published rows leave both out: they change no number, and cost time."""
    recompute = published["recompute"]
    modules = tuple(recompute["modules"]) if recompute["enabled"] else ()
    return {
        "recompute_modules": modules,
        "reshard_after_forward": published["reshard_after_forward"],
    }


def scale_parallel(
    recipe: Mapping[str, Any], hf_config: Config, scale: Mapping[str, Any]
) -> tuple[Config, list[Change]]:
    """(fields of the run spec's layout, changes)."""
    published, world = recipe["parallel"], scale["parallel"]["world_size"]
    undivided = WITHOUT_EXPERT_PARALLEL.get(str(hf_config.get("model_type")))
    divides = is_moe(hf_config) and undivided is None
    ep = min(first(published.get("ep"), 1), world) if divides else 1
    patterns = {
        key: tuple(published[key])
        for key in ("fsdp_modules", "ignored_modules", "ep_modules", "ep_fsdp_modules")
        if published.get(key)
    }
    parallel = {"fsdp_size": world, "ep_size": ep, "ep_fsdp_size": world // ep, **patterns}
    if recipe.get("kind") == "yaml":
        parallel |= _as_configured(published)
    rules = {
        "fsdp_size": "all ranks, as published",
        "ep_size": undivided or "published, at most the ranks there are",
        "ep_fsdp_size": "ranks / expert parallel size",
    }
    names = {"fsdp_size": "fsdp_size", "ep_size": "ep", "ep_fsdp_size": "ep_fsdp_size"}
    changes = [
        Change(f"parallel.{key}", published.get(name), parallel[key], rules[key])
        for key, name in names.items()
    ]
    return parallel, changes
