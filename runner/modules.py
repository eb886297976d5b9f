"""Which modules of a model repeat, and which hold experts: what a layout's patterns name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Patterns:
    """fsdp: repeated blocks, embedding and head; experts: modules with fused expert tensors,
    which can be divided over ranks; n_experts: of each of them, 0 without any."""

    fsdp: tuple[str, ...]
    experts: tuple[str, ...]
    n_experts: int


def patterns(model: Any) -> Patterns:
    """The module patterns of a stock or own causal language model."""
    names = {id(module): name for name, module in model.named_modules()}
    lists = [name for name, module in model.named_modules() if _repeats(module)]
    outer = [n for n in lists if not any(n.startswith(f"{other}.") for other in lists)]
    ends = [names.get(id(end)) for end in _ends(model)]
    blocks = [f"{name}.{{*}}" for name in outer]
    fsdp = dict.fromkeys([*blocks, *(name for name in ends if name)])
    held = {
        name: int(module.num_experts)
        for name, module in model.named_modules()
        if holds_fused_experts(module)
    }
    experts = dict.fromkeys(_general(name, outer) for name in held)
    return Patterns(tuple(fsdp), tuple(experts), max(held.values(), default=0))


def holds_fused_experts(module: nn.Module) -> bool:
    """Whether every parameter of a module has one entry for each of its experts."""
    n_experts = getattr(module, "num_experts", None)
    parameters = list(module.parameters(recurse=False))
    return (
        isinstance(n_experts, int)
        and n_experts > 1
        and len(parameters) > 0
        and any(p.dim() == 3 for p in parameters)
        and all(p.dim() >= 2 and p.shape[0] == n_experts for p in parameters)
    )


def _repeats(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList) and len(module) > 1


def _ends(model: Any) -> list[Any]:
    return [model.get_input_embeddings(), model.get_output_embeddings()]


def _general(name: str, outer: list[str]) -> str:
    for prefix in outer:
        name = re.sub(rf"^{re.escape(prefix)}\.\d+(?=\.)", f"{prefix}.{{*}}", name)
    return name
