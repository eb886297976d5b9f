"""Scale a recipe down, keeping every feature of its architecture.

A rule is one line of a table: which key, what it becomes, and why. What the published script
leaves open comes from the model's public configuration. The result lists every change, so that a
page can show published value, scaled value and rule side by side. Pure: no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import CannotJudgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Config = dict[str, Any]

# Model types whose features the rules below are known to keep.
SCALABLE = ("qwen3_moe", "qwen3", "qwen2", "llama")


@dataclass(frozen=True)
class Change:
    """One line of the scaling table. published is None where the script leaves it open."""

    key: str
    published: Any
    scaled: Any
    rule: str


@dataclass(frozen=True)
class ScaledRecipe:
    """A recipe at another scale: hf_config lacks only what the tokenizer decides (vocab_size and
    the ids of special tokens); training and parallel hold the fields of the run spec."""

    hf_config: Config
    training: Config
    parallel: Config
    data: Config
    resume: Config
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class _Rule:
    key: str
    scaled: Callable[[Config, Config, Config], Any]
    text: str


def _round(value: float, multiple: int) -> int:
    return max(multiple, round(value / multiple) * multiple)


def _heads(published: Config, scaled: Config, to: Config) -> int:
    head_dim = published.get("head_dim") or (
        published["hidden_size"] // published["num_attention_heads"]
    )
    ratio = published["num_attention_heads"] * head_dim / published["hidden_size"]
    return _round(ratio * scaled["hidden_size"] / to["head_dim"], to["num_key_value_heads"])


def _kv_heads(published: Config, scaled: Config, to: Config) -> int:
    heads, kv = published["num_attention_heads"], published["num_key_value_heads"]
    if heads == kv:
        return int(scaled["num_attention_heads"])
    return min(int(kv), int(to["num_key_value_heads"]))


def _width(key: str) -> Callable[[Config, Config, Config], int]:
    def width(published: Config, scaled: Config, to: Config) -> int:
        ratio = published[key] / published["hidden_size"]
        return _round(ratio * scaled["hidden_size"], to["width_multiple"])

    return width


# In order: a later rule may read what an earlier one set.
_MODEL_RULES = (
    _Rule("hidden_size", lambda p, s, to: min(p["hidden_size"], to["hidden_size"]), "fixed width"),
    _Rule(
        "num_hidden_layers",
        lambda p, s, to: min(p["num_hidden_layers"], to["num_hidden_layers"]),
        "few layers, more than two",
    ),
    _Rule("num_attention_heads", _heads, "heads x head_dim / hidden as published"),
    _Rule("num_key_value_heads", _kv_heads, "grouped-query stays grouped, multi-head stays so"),
    _Rule("head_dim", lambda p, s, to: to["head_dim"], "fixed"),
    _Rule("intermediate_size", _width("intermediate_size"), "ratio to hidden as published"),
    _Rule("moe_intermediate_size", _width("moe_intermediate_size"), "ratio to hidden as published"),
    _Rule(
        "num_experts",
        lambda p, s, to: min(p["num_experts"], to["num_experts"]),
        "several experts on each expert-parallel rank",
    ),
    _Rule(
        "num_experts_per_tok",
        lambda p, s, to: min(p["num_experts_per_tok"], to["num_experts_per_tok"]),
        "top-k stays above one where it was",
    ),
)
# Features that must survive as published; listed so that the page can say so.
_KEPT = (
    "model_type",
    "architectures",
    "hidden_act",
    "rms_norm_eps",
    "rope_theta",
    "attention_bias",
    "tie_word_embeddings",
    "norm_topk_prob",
    "router_aux_loss_coef",
    "decoder_sparse_step",
    "initializer_range",
)


def _scale_model(public: Config, to: Config) -> tuple[Config, list[Change]]:
    model_type = public.get("model_type")
    if model_type not in SCALABLE:
        raise CannotJudgeError(
            f"no rule scales model type {model_type!r} down yet",
            expected=f"one of {', '.join(SCALABLE)}",
            hint="certify recipes list --backend fsdp2",
        )
    scaled = dict(public)
    changes = []
    for rule in _MODEL_RULES:
        if public.get(rule.key) is None:
            continue
        scaled[rule.key] = rule.scaled(public, scaled, to)
        changes.append(Change(f"model.{rule.key}", public[rule.key], scaled[rule.key], rule.text))
    if "head_dim" not in public or public["head_dim"] is None:
        scaled["head_dim"] = scaled["hidden_size"] // scaled["num_attention_heads"]
    changes += [
        Change(f"model.{key}", public[key], public[key], "kept")
        for key in _KEPT
        if public.get(key) is not None
    ]
    return scaled, changes


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _scale_training(
    recipe: Mapping[str, Any], public: Config, scale: Mapping[str, Any]
) -> tuple[Config, list[Change]]:
    script, batch, to = recipe["training"], recipe["batch"], scale["training"]
    steps = to["steps"]
    grown = script["lr"] * public["hidden_size"] / to["width_reference"]
    lr = min(max(grown, to["lr_floor"]), to["lr_ceiling"])
    floor_ratio = _first(script.get("min_lr"), 0.0) / script["lr"]
    fraction = max(_first(script.get("warmup_fraction"), 0.0), to["warmup_fraction_min"])
    warmup = max(1, round(fraction * steps))
    moe = public.get("num_experts") is not None
    coefficient = _first(
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
        "schedule": _first(script.get("schedule"), "cosine"),
        "weight_decay": _first(script.get("weight_decay"), 0.0),
        "beta1": _first(script.get("beta1"), 0.9),
        "beta2": _first(script.get("beta2"), 0.95),
        "eps": _first(script.get("eps"), 1e-8),
        "clip_grad": _first(script.get("clip_grad"), 1.0),
        "seed": _first(script.get("seed"), 42),
        "aux_loss_coef": float(coefficient) if moe else 0.0,
        "aux_loss_formula": "megatron",
    }
    rules = {
        "steps": "fixed; enough for the loss-curve intervals",
        "global_batch": "fixed",
        "lr": "published x hidden / scaled hidden, inside [floor, ceiling] of the scale",
        "min_lr": "published share of lr",
        "warmup_steps": "published fraction, at least the scale's",
        "warmup_init_lr": "lr / warm-up steps, so that the first step moves the weights",
        "aux_loss_coef": "script, else the model's public configuration",
    }
    published = {**script, "global_batch": batch.get("global"), "clip_grad": script["clip_grad"]}
    published["aux_loss_coef"] = script.get("router_aux_loss_coef")
    published["warmup_steps"] = script.get("warmup_iters")
    changes = [
        Change(f"training.{key}", published.get(key), training[key], rules.get(key, "kept"))
        for key in training
        if key not in ("micro_batch", "decay_steps", "aux_loss_formula")
    ]
    return training, changes


def _scale_parallel(
    recipe: Mapping[str, Any], hf_config: Config, scale: Mapping[str, Any]
) -> tuple[Config, list[Change]]:
    published, world = recipe["parallel"], scale["parallel"]["world_size"]
    moe = hf_config.get("num_experts") is not None
    ep = min(_first(published.get("ep"), 1), world) if moe else 1
    patterns = {
        key: tuple(published[key])
        for key in ("fsdp_modules", "ignored_modules", "ep_modules", "ep_fsdp_modules")
        if published.get(key)
    }
    parallel = {"fsdp_size": world, "ep_size": ep, "ep_fsdp_size": world // ep, **patterns}
    rules = {
        "fsdp_size": "all ranks, as published",
        "ep_size": "published, at most the ranks there are",
        "ep_fsdp_size": "ranks / expert parallel size",
    }
    names = {"fsdp_size": "fsdp_size", "ep_size": "ep", "ep_fsdp_size": "ep_fsdp_size"}
    changes = [
        Change(f"parallel.{key}", published.get(name), parallel[key], rules[key])
        for key, name in names.items()
    ]
    return parallel, changes


def scale_down(
    recipe: Mapping[str, Any], public: Mapping[str, Any], scale: Mapping[str, Any]
) -> ScaledRecipe:
    """Scale a published recipe.

    recipe: its facts as in ``matrices/recipes``; public: the model's public configuration
    (transformers keys); scale: a parsed file of ``matrices/scales``.
    Raises CannotJudgeError for a model type whose features the rules do not keep.
    """
    hf_config, changes = _scale_model(dict(public), dict(scale["model"]))
    training, training_changes = _scale_training(recipe, dict(public), scale)
    parallel, parallel_changes = _scale_parallel(recipe, hf_config, scale)
    data = {**scale["data"]}
    resume = dict(scale["resume"])
    # The save step is made an epoch boundary by the number of samples in an epoch.
    data["samples"] = resume["save_step"] * data["global_batch"]
    sequence = Change(
        "data.seq_length", recipe["training"].get("seq_length"), data["seq_length"], "fixed"
    )
    precision = Change(
        "training.dtype",
        _first(recipe["training"].get("dtype"), recipe["parallel"].get("param_dtype")),
        scale["training"]["dtype"],
        "fp32 tier: differences are faults, not rounding",
    )
    return ScaledRecipe(
        hf_config=hf_config,
        training=training,
        parallel=parallel,
        data=data,
        resume=resume,
        changes=(*changes, sequence, *training_changes, precision, *parallel_changes),
    )
