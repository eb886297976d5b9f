"""Repeated blocks through torch.compile, one graph for all of them.

Only the forward of a block is compiled: the hooks of fully_shard run around it as ever. What the
router hooks see inside leaves the graph as an output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import nn

    from runner.routing import RouterTap


def compile_block(module: Any, tap: RouterTap) -> None:
    """Compile the forward of one block, whole: a graph break is an error."""
    stock = module.forward

    def traced(*args: Any, **kwargs: Any) -> Any:
        seen: list[Any] = []
        tap.divert(seen)
        result = stock(*args, **kwargs)
        tap.divert(None)
        return result, seen

    compiled = torch.compile(traced, fullgraph=True, dynamic=False)

    def forward(*args: Any, **kwargs: Any) -> Any:
        result, seen = compiled(*args, **kwargs)
        for logits, ids, bias in seen:
            tap.note(logits, ids, bias)
        return result

    module.forward = forward


def compile_blocks(model: nn.Module, names: list[str], tap: RouterTap) -> list[str]:
    """Compile the named blocks and the last norm of the model; returns what was compiled."""
    chosen = list(names)
    if names:
        parent = names[0].rpartition(".")[0].rpartition(".")[0]
        siblings = model.get_submodule(parent).named_children()
        chosen += [f"{parent}.{n}".lstrip(".") for n, _ in siblings if n.endswith("norm")]
    # One entry of the cache for each kind of block (a dense first layer, windows) and call.
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    for name in chosen:
        compile_block(model.get_submodule(name), tap)
    return chosen
