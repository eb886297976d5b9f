"""Names and layouts: published Hugging Face tensors <-> parameters of Megatron's GPTModel.

The rules are data (`mappings`). A rule names one Megatron tensor, the published tensors that it
holds, and the layout that joins them; ``{layer}`` and ``{expert}`` are expanded. Joining and
splitting only move elements, so both ways are bitwise, for weights, gradients and moments alike.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from certify.errors import UsageError
from runner.backends.mcore import families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor

    from runner.backends.mcore.mappings import Rule


@dataclass(frozen=True)
class Shape:
    """What a layout needs to know: key/value heads, query heads per group, head width."""

    groups: int
    heads_per_group: int
    head_dim: int


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


def _join_qkv_rows(parts: list[Tensor], shape: Shape) -> Tensor:
    # Published as all queries, then all keys, then all values.
    rows = [shape.heads_per_group * shape.groups, shape.groups, shape.groups]
    return _join_qkv(list(parts[0].split([n * shape.head_dim for n in rows])), shape)


def _split_qkv_rows(whole: Tensor, shape: Shape) -> list[Tensor]:
    return [torch.cat(_split_qkv(whole, shape))]


# layout -> (join published tensors, split the Megatron parameter again)
LAYOUTS: dict[str, tuple[Callable[[list[Any], Shape], Any], Callable[[Any, Shape], list[Any]]]] = {
    "same": (lambda parts, _: parts[0], lambda whole, _: [whole]),
    "stack": (lambda parts, _: torch.cat(parts), lambda whole, _: list(whole.chunk(2))),
    # Published as one tensor of two halves, which tensor parallel divides each by itself.
    "halves": (lambda parts, _: parts[0], lambda whole, _: [whole]),
    "qkv": (_join_qkv, _split_qkv),
    "qkv-rows": (_join_qkv_rows, _split_qkv_rows),
}
# Layouts of two matrices stacked in the dimension that tensor parallel divides.
TWO = ("stack", "halves")


class WeightMap:
    """The rules expanded for one configuration."""

    def __init__(self, hf_config: dict[str, Any]) -> None:
        self._shape = _shape(hf_config)
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


def _shape(hf_config: dict[str, Any]) -> Shape:
    if "num_attention_heads" not in hf_config:
        return Shape(0, 0, 0)  # no attention
    groups = families.query_groups(hf_config)
    heads = int(hf_config["num_attention_heads"])
    return Shape(groups, heads // groups, families.head_dim(hf_config))


def expand(hf_config: dict[str, Any]) -> Iterator[Rule]:
    """The rules that a configuration has, with layer and expert filled in."""
    whole = families.words(hf_config)
    experts = range(families.num_experts(hf_config))
    shared = {"shared"} if families.shared_width(hf_config) else set()
    layers = families.moe_layers(hf_config)
    for rule in families.family(hf_config).rules:
        if "{layer}" not in rule.mcore:
            if rule.when in whole:
                yield rule
            continue
        for layer, has_experts in enumerate(layers):
            if rule.when not in whole | ({"moe", *shared} if has_experts else {"dense"}):
                continue
            for expert in experts if "{expert}" in rule.mcore else (0,):
                fill = {"layer": layer, "expert": expert}
                yield dataclasses.replace(
                    rule,
                    mcore=rule.mcore.format(**fill),
                    hf=tuple(name.format(**fill) for name in rule.hf),
                )


def _not_mapped(verb: str, names: list[str]) -> UsageError:
    return UsageError(
        f"the checkpoint {verb} {len(names)} tensors, the first {names[0]!r}",
        where="model.weights_dir",
        expected="the tensors that model.hf_config describes, under their published names",
    )
