"""Names and layouts: published Hugging Face tensors <-> parameters of Megatron's GPTModel.

`RULES` is the whole mapping. A rule names one Megatron parameter, the published tensors that it
holds, and the layout that joins them; ``{layer}`` and ``{expert}`` are expanded. Joining and
splitting only move elements, so both ways are bitwise, for weights, gradients and moments alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from certify.errors import UsageError
from runner.backends.mcore import families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """What a layout needs to know: key/value heads, query heads per group, head width."""

    groups: int
    heads_per_group: int
    head_dim: int


@dataclass(frozen=True)
class Rule:
    """One Megatron parameter. when: attribute of `families.Family` that must be set, a layer kind
    (``dense`` or ``moe``), ``untied`` or empty for always."""

    mcore: str
    hf: tuple[str, ...]
    layout: str = "same"
    when: str = ""


_ATTENTION = "model.layers.{layer}.self_attn."
_MLP = "model.layers.{layer}.mlp."
_EXPERT = _MLP + "experts.{expert}."
_QKV = ("q_proj", "k_proj", "v_proj")
_MCORE_ATTENTION = "decoder.layers.{layer}.self_attention."
_MCORE_MLP = "decoder.layers.{layer}.mlp."
_MCORE_EXPERT = _MCORE_MLP + "experts.local_experts.{expert}."


def _of(prefix: str, names: tuple[str, ...], suffix: str = ".weight") -> tuple[str, ...]:
    return tuple(prefix + name + suffix for name in names)


RULES: tuple[Rule, ...] = (
    Rule("embedding.word_embeddings.weight", ("model.embed_tokens.weight",)),
    Rule("decoder.final_layernorm.weight", ("model.norm.weight",)),
    Rule("output_layer.weight", ("lm_head.weight",), when="untied"),
    Rule(
        "decoder.layers.{layer}.input_layernorm.weight",
        ("model.layers.{layer}.input_layernorm.weight",),
    ),
    Rule(
        "decoder.layers.{layer}.pre_mlp_layernorm.weight",
        ("model.layers.{layer}.post_attention_layernorm.weight",),
    ),
    Rule(_MCORE_ATTENTION + "linear_qkv.weight", _of(_ATTENTION, _QKV), "qkv"),
    Rule(_MCORE_ATTENTION + "linear_qkv.bias", _of(_ATTENTION, _QKV, ".bias"), "qkv", "qkv_bias"),
    Rule(_MCORE_ATTENTION + "linear_proj.weight", _of(_ATTENTION, ("o_proj",))),
    Rule(_MCORE_ATTENTION + "q_layernorm.weight", _of(_ATTENTION, ("q_norm",)), when="qk_norm"),
    Rule(_MCORE_ATTENTION + "k_layernorm.weight", _of(_ATTENTION, ("k_norm",)), when="qk_norm"),
    Rule(_MCORE_MLP + "linear_fc1.weight", _of(_MLP, ("gate_proj", "up_proj")), "stack", "dense"),
    Rule(_MCORE_MLP + "linear_fc2.weight", _of(_MLP, ("down_proj",)), when="dense"),
    Rule(_MCORE_MLP + "router.weight", _of(_MLP, ("gate",)), when="moe"),
    Rule(
        _MCORE_EXPERT + "linear_fc1.weight",
        _of(_EXPERT, ("gate_proj", "up_proj")),
        "stack",
        "moe",
    ),
    Rule(_MCORE_EXPERT + "linear_fc2.weight", _of(_EXPERT, ("down_proj",)), when="moe"),
)


def _join_qkv(parts: list[Tensor], shape: Shape) -> Tensor:
    # Megatron keeps the heads of one group together: its queries, its key, its value.
    rest = parts[0].shape[1:]
    grouped = [part.reshape(shape.groups, -1, *rest) for part in parts]
    return torch.cat(grouped, dim=1).reshape(-1, *rest)


def _split_qkv(whole: Tensor, shape: Shape) -> list[Tensor]:
    rest = whole.shape[1:]
    rows = [shape.heads_per_group * shape.head_dim, shape.head_dim, shape.head_dim]
    grouped = whole.reshape(shape.groups, sum(rows), *rest)
    return [part.reshape(-1, *rest) for part in grouped.split(rows, dim=1)]


# layout -> (join published tensors, split the Megatron parameter again)
LAYOUTS: dict[str, tuple[Callable[[list[Any], Shape], Any], Callable[[Any, Shape], list[Any]]]] = {
    "same": (lambda parts, _: parts[0], lambda whole, _: [whole]),
    "stack": (lambda parts, _: torch.cat(parts), lambda whole, _: list(whole.chunk(2))),
    "qkv": (_join_qkv, _split_qkv),
}


class WeightMap:
    """The rules expanded for one configuration."""

    def __init__(self, hf_config: dict[str, Any]) -> None:
        groups = families.query_groups(hf_config)
        heads = int(hf_config["num_attention_heads"])
        self._shape = Shape(groups, heads // groups, families.head_dim(hf_config))
        self.rules = {rule.mcore: rule for rule in expand(hf_config)}

    @property
    def mcore_names(self) -> list[str]:
        """Megatron's parameter names, without the prefix of a wrapper."""
        return list(self.rules)

    @property
    def hf_names(self) -> list[str]:
        """The published names."""
        return [name for rule in self.rules.values() for name in rule.hf]

    def to_mcore(self, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """(Megatron name, tensor) for published tensors.

        Raises UsageError when the checkpoint lacks a tensor or holds one that no rule names.
        """
        if unknown := sorted(set(tensors) - set(self.hf_names)):
            raise _not_mapped("holds", unknown)
        if missing := sorted(set(self.hf_names) - set(tensors)):
            raise _not_mapped("lacks", missing)
        for rule in self.rules.values():
            join = LAYOUTS[rule.layout][0]
            yield rule.mcore, join([tensors[name] for name in rule.hf], self._shape)

    def to_hf(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Published name -> tensor (a view where the layout allows) for Megatron's tensors, all
        of them or those that one rank holds."""
        found: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            rule = self.rules[name]
            split = LAYOUTS[rule.layout][1]
            found |= zip(rule.hf, split(tensor, self._shape), strict=True)
        return found


def expand(hf_config: dict[str, Any]) -> Iterator[Rule]:
    """The rules that a configuration has, with layer and expert filled in."""
    found = families.family(hf_config)
    experts = range(families.num_experts(hf_config))
    moe = families.moe_layers(hf_config)
    whole = {"", *(name for name in ("qk_norm", "qkv_bias") if getattr(found, name))}
    if not hf_config.get("tie_word_embeddings", False):
        whole.add("untied")
    for rule in RULES:
        if "{layer}" not in rule.mcore:
            if rule.when in whole:
                yield rule
            continue
        for layer, has_experts in enumerate(moe):
            if rule.when not in whole | {"moe" if has_experts else "dense"}:
                continue
            for expert in experts if "{expert}" in rule.mcore else (0,):
                fill = {"layer": layer, "expert": expert}
                yield Rule(
                    rule.mcore.format(**fill),
                    tuple(name.format(**fill) for name in rule.hf),
                    rule.layout,
                )


def _not_mapped(verb: str, names: list[str]) -> UsageError:
    return UsageError(
        f"the checkpoint {verb} {len(names)} tensors, the first {names[0]!r}",
        where="model.weights_dir",
        expected="the tensors that model.hf_config describes, under their published names",
    )
