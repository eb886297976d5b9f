"""A model's public configuration, scaled down by the table of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import CannotJudgeError
from certify.recipes.scale.families import HEADS, LAYERS, SCALABLE, value
from certify.recipes.scale.formulas import is_layer_table
from certify.recipes.scale.rules import DROPPED, KEPT, LAST_RULES, RULES

if TYPE_CHECKING:
    from certify.recipes.scale.formulas import Config


@dataclass(frozen=True)
class Change:
    """One line of the scaling table. published is None where the script leaves it open."""

    key: str
    published: Any
    scaled: Any
    rule: str


def require_scalable(model_type: Any) -> None:
    """Raises CannotJudgeError for a model type whose features the rules do not keep."""
    if model_type in SCALABLE:
        return
    from difflib import get_close_matches

    close = get_close_matches(str(model_type), SCALABLE, n=3)
    raise CannotJudgeError(
        f"no rule scales model type {model_type!r} down yet",
        expected=f"one of {', '.join(SCALABLE)}",
        hint=f"near: {', '.join(close)}" if close else "certify recipes list --backend fsdp2",
    )


def scale_model(public: Config, to: Config) -> tuple[Config, list[Change]]:
    """(scaled configuration, what was changed and what was kept).

    public: transformers keys; to: the ``[model]`` table of a scale.
    Raises CannotJudgeError for a model type whose features the rules do not keep.
    """
    require_scalable(public.get("model_type"))
    scaled = {key: entry for key, entry in public.items() if key not in DROPPED}
    changes: list[Change] = []

    def apply(rules: tuple[Any, ...]) -> None:
        for rule in rules:
            if public.get(rule.key) is None:
                continue
            scaled[rule.key] = rule.scaled(public, scaled, to, rule.key)
            changes.append(
                Change(f"model.{rule.key}", public[rule.key], scaled[rule.key], rule.text)
            )

    apply(RULES)
    changes += _cut_tables(public, scaled)
    apply(LAST_RULES)
    if (heads := value(scaled, HEADS)) and "kv_lora_rank" not in public and not _states(public):
        scaled.setdefault("head_dim", scaled["hidden_size"] // heads)
        if scaled["head_dim"] is None:
            scaled["head_dim"] = scaled["hidden_size"] // heads
    changes += [
        Change(f"model.{key}", public[key], public[key], "kept")
        for key in KEPT
        if public.get(key) is not None
    ]
    changes += [
        Change(f"model.{key}", public[key], None, "says nothing about the mathematics")
        for key in DROPPED
        if public.get(key) is not None
    ]
    return scaled, changes


def _states(public: Config) -> bool:
    return public.get("state_size") is not None or "n_head" in public


def _cut_tables(public: Config, scaled: Config) -> list[Change]:
    """Tables with one entry for each layer, cut to the layers that are left."""
    depth = value(scaled, LAYERS)
    cut = []
    for key in public:
        if is_layer_table(public, key):
            scaled[key] = scaled[key][:depth]
            cut.append(Change(f"model.{key}", public[key], scaled[key], "the first layers"))
    return cut
