"""What a key of a scaled configuration becomes: one function for each kind of quantity.

Every function takes (published configuration, what is scaled so far, numbers of the scale, key)
and returns the new value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.recipes.scale.families import (
    EXPERT_GROUPS,
    EXPERTS,
    HEADS,
    KV_HEADS,
    LAYERS,
    found,
    partial_rotary,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Config = dict[str, Any]


def rounded(number: float, multiple: int) -> int:
    """The nearest positive multiple."""
    return max(multiple, round(number / multiple) * multiple)


# -- depth --------------------------------------------------------------------------------------

# Keys that say after how many layers a pattern repeats.
_PERIODS = ("full_attention_interval", "layer_group_size", "sliding_window_pattern")


def is_layer_table(published: Config, key: str) -> bool:
    """Whether a key lists one entry for each layer, or some more for multi-token prediction."""
    entries, depth = published.get(key), value(published, LAYERS)
    if not isinstance(entries, list) or depth is None or key == "moe_layers_enum":
        return False
    return len(entries) in (depth, depth + (published.get("num_nextn_predict_layers") or 0))


def layers(p: Config, s: Config, to: Config, key: str) -> Any:
    """Few layers, but every kind of layer that the model has."""
    wanted = int(to["num_hidden_layers"])
    for name, entries in p.items():
        if is_layer_table(p, name):
            used = entries[: p[key]]
            wanted = max(wanted, *(used.index(kind) + 1 for kind in used))
    if experts := p.get("moe_layers_enum"):
        wanted = max(wanted, min(experts) + 1)
    for name in _PERIODS:
        if isinstance(p.get(name), int):
            wanted = max(wanted, p[name])
    return min(wanted, p[key])


def first_dense(p: Config, s: Config, to: Config, key: str) -> Any:
    blocks = s.get("mlp_layer_types")
    if isinstance(blocks, list) and "dense" in blocks:
        return next(i for i, kind in enumerate([*blocks, None]) if kind != "dense")
    return min(p[key], 1)


# -- attention ----------------------------------------------------------------------------------


def _published_head_dim(p: Config) -> float:
    heads = value(p, HEADS)
    return float(p.get("head_dim") or p["hidden_size"] / heads)


def head_dim(p: Config, s: Config, to: Config, key: str = "head_dim") -> Any:
    """Wide enough for two rotary frequencies when only a part of a head turns."""
    if p.get("kv_lora_rank") is not None:
        # The classes of latent attention take head_dim for the part that turns.
        return int(to["qk_rope_head_dim"])
    return max(int(to["head_dim"]), round(4 / partial_rotary(p)))


def heads(p: Config, s: Config, to: Config, key: str) -> Any:
    if p.get("kv_lora_rank") is not None:
        return min(p[key], int(to["latent_heads"]))
    ratio = p[key] * _published_head_dim(p) / p["hidden_size"]
    step = to["num_key_value_heads"]
    return rounded(ratio * s["hidden_size"] / head_dim(p, s, to), step)


def kv_heads(p: Config, s: Config, to: Config, key: str) -> Any:
    if value(p, HEADS) == p[key]:
        return int(value(s, HEADS))
    return min(int(p[key]), int(to["num_key_value_heads"]))


def other_heads(p: Config, s: Config, to: Config, key: str) -> Any:
    """The heads of layers that have other ones, as many times those of the rest as published."""
    other = dict(p[key])
    if "num_attention_heads" in other:
        times = other["num_attention_heads"] / value(p, HEADS)
        groups = value(s, KV_HEADS)
        other["num_attention_heads"] = rounded(times * value(s, HEADS), groups)
    if "num_attention_groups" in other:
        other["num_attention_groups"] = value(s, KV_HEADS)
    if "head_dim" in other:
        other["head_dim"] = head_dim(p, s, to)
    return other


def layer_numbers(p: Config, s: Config, to: Config, key: str) -> Any:
    """Those of the layers that are left."""
    return [number for number in p[key] if number < value(s, LAYERS)]


def fixed(name: str) -> Callable[[Config, Config, Config, str], int]:
    return lambda p, s, to, key: min(int(p[key]), int(to[name]))


def value_dim(p: Config, s: Config, to: Config, key: str) -> Any:
    return rounded(p[key] / p["qk_nope_head_dim"] * s["qk_nope_head_dim"], to["width_multiple"])


def of_head_dim(p: Config, s: Config, to: Config, key: str) -> Any:
    """As large a multiple of the head dimension as published."""
    scaled = p[key] / _published_head_dim(p) * head_dim(p, s, to)
    return round(scaled) if isinstance(p[key], int) else scaled


def rope_dim(p: Config, s: Config, to: Config, key: str) -> Any:
    if p.get("kv_lora_rank") is None:
        return int(of_head_dim(p, s, to, key))
    return min(p[key], int(to["qk_rope_head_dim"]))


def window(p: Config, s: Config, to: Config, key: str) -> Any:
    return min(p[key], to["sliding_window"]) if p[key] else p[key]


def rotary(p: Config, s: Config, to: Config, key: str) -> Any:
    """Factors for each frequency (longrope): as many as a scaled head has, evenly picked."""
    factors = dict(p[key])
    count = int(head_dim(p, s, to) * partial_rotary(p)) // 2
    for name in ("long_factor", "short_factor"):
        if isinstance(every := factors.get(name), list):
            factors[name] = [every[i * len(every) // count] for i in range(count)]
    return factors


# -- linear attention, state space, compression --------------------------------------------------


def linear_heads(p: Config, s: Config, to: Config, key: str) -> Any:
    """Value heads stay as many times the key heads as published."""
    times = p["linear_num_value_heads"] // p["linear_num_key_heads"]
    few = int(to["linear_heads"])
    return few * times if key == "linear_num_value_heads" else few


def state_heads(p: Config, s: Config, to: Config, key: str) -> Any:
    return int(s["hidden_size"] * p.get("expand", 2)) // int(to["head_dim"])


def rates(p: Config, s: Config, to: Config, key: str) -> dict[str, int]:
    return {kind: min(rate, to["compress_rate"]) for kind, rate in p[key].items()}


# -- widths and experts -------------------------------------------------------------------------


def width(p: Config, s: Config, to: Config, key: str) -> Any:
    def one(width: int) -> int:
        return rounded(width / p["hidden_size"] * s["hidden_size"], to["width_multiple"])

    if isinstance(p[key], list):
        return [one(width) for width in p[key]]
    return one(p[key])


def of_hidden(p: Config, s: Config, to: Config, key: str) -> Any:
    return max(1, round(p[key] / p["hidden_size"] * s["hidden_size"]))


def per_layer(limit: str) -> Callable[[Config, Config, Config, str], Any]:
    """At most the scale's number; a list holds one number for each layer."""

    def smaller(p: Config, s: Config, to: Config, key: str) -> Any:
        if isinstance(p[key], list):
            return [min(n, to[limit]) for n in p[key]]
        return min(p[key], to[limit])

    return smaller


def groups(p: Config, s: Config, to: Config, key: str) -> Any:
    """Two experts or more in each group: a group is scored by its two best."""
    return max(1, min(p[key], int(value(s, EXPERTS)) // 2))


def top_groups(p: Config, s: Config, to: Config, key: str) -> Any:
    name = found(p, EXPERT_GROUPS)
    if name is None or p[name] <= 1:
        return int(p[key])
    groups = s[name]
    return min(max(1, round(p[key] / p[name] * groups)), groups)


def zero_experts(p: Config, s: Config, to: Config, key: str) -> Any:
    return max(1, round(p[key] / value(p, EXPERTS) * value(s, EXPERTS)))


def nothing(p: Config, s: Config, to: Config, key: str) -> Any:
    return type(p[key])(0)
