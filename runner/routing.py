"""Watches the routers of a stock model: their logits for the auxiliary loss, their choices for
the evidence."""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from runner.compat import router_recorders
from runner.evidence import topk_sets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from runner.callpoints import Fault


@dataclass(frozen=True)
class Routed:
    """One forward of one router. logits: [tokens, experts]; ids: chosen experts [tokens, k]."""

    logits: torch.Tensor
    ids: torch.Tensor

    def probabilities(self) -> torch.Tensor:
        """Softmax over all experts, float32 [tokens, experts]."""
        return self.logits.float().softmax(dim=-1)


class RouterTap:
    """Hooks on every router of a model; it records only inside `recording`.

    layers: decoder layers with a router, ascending. Empty for a dense model.
    """

    def __init__(self, model: Any, fault: Fault) -> None:
        self._top_k = int(getattr(model.config, "num_experts_per_tok", None) or 1)
        self._fault = fault
        self._record: list[Routed] | None = None
        self.layers: list[int] = []
        for recorder in router_recorders(model):
            plain = inspect.isclass(recorder)
            target: Any = recorder if plain else recorder.target_class
            suffix = None if plain else recorder.layer_name
            index = 0 if plain else recorder.index
            for name, module in model.named_modules():
                if isinstance(module, target) and (suffix is None or name.endswith(suffix)):
                    self.layers.append(_layer(name))
                    module.register_forward_hook(self._hook(index))

    def _hook(self, index: int) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            parts = output if isinstance(output, tuple) else (output,)
            logits = parts[index].flatten(0, -2)
            chosen = next((p for p in parts if not p.is_floating_point()), None)
            if chosen is None:
                chosen = logits.float().softmax(-1).topk(self._top_k, dim=-1).indices
            chosen = chosen.flatten(0, -2)
            if self._record is not None:
                self._record.append(Routed(logits, chosen))
            return self._with_scores(parts, logits, chosen)

        return hook

    def _with_scores(self, parts: tuple[Any, ...], logits: Any, ids: Any) -> Any:
        """The router's output with its scores passed through the fault's call point."""
        changed = tuple(
            self._fault.router_scores(logits, part, ids)
            if part.is_floating_point() and part.shape == ids.shape
            else part
            for part in parts
        )
        return None if all(a is b for a, b in zip(changed, parts, strict=True)) else changed

    @contextmanager
    def recording(self) -> Iterator[list[Routed]]:
        """Collects one `Routed` per router, in layer order, of the forward passes inside.

        A recomputation during the backward pass happens outside and is not recorded.
        """
        record: list[Routed] = []
        self._record = record
        try:
            yield record
        finally:
            self._record = None


def _layer(name: str) -> int:
    found = re.search(r"\.(\d+)\.", name)
    return int(found[1]) if found else 0


def sets_of(routed: list[Routed]) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids int16 [layers, tokens, k] ascending, gap float32 [layers, tokens])."""
    with torch.no_grad():
        pairs = [topk_sets(r.probabilities(), r.ids.shape[-1], r.ids) for r in routed]
        return torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])
