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
from runner.scores import SOFTMAX, Scoring, scoring_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from runner.callpoints import Fault


@dataclass(frozen=True)
class Routed:
    """One forward of one router. logits: [tokens, experts]; ids: chosen experts [tokens, k];
    scoring: how its family chooses; bias: [experts], what its choice adds to the scores."""

    logits: torch.Tensor
    ids: torch.Tensor
    scoring: Scoring = SOFTMAX
    bias: torch.Tensor | None = None

    def probabilities(self) -> torch.Tensor:
        """Scores over all experts that add up to one, float32 [tokens, experts]."""
        return self.scoring.probabilities(self.logits)

    def gap(self) -> torch.Tensor:
        """How near each choice was to another one, float32 [tokens]."""
        return self.scoring.choice(self.logits, self.bias, self.ids.shape[-1])[1]

    def detached(self) -> Routed:
        """The same without gradient."""
        return Routed(self.logits.detach(), self.ids, self.scoring, self.bias)


class RouterTap:
    """Hooks on every router of a model; it records only inside `recording`.

    layers: decoder layers with a router, ascending, empty for a dense model; biases: of each of
    them the buffer that its choice adds to the scores, or None.
    """

    def __init__(self, model: Any, fault: Fault) -> None:
        self._top_k = int(getattr(model.config, "num_experts_per_tok", None) or 1)
        self._fault = fault
        self._record: list[Routed] | None = None
        self._diverted: list[Any] | None = None
        self._scoring = scoring_of(model.config)
        self.layers: list[int] = []
        self._owners: list[Any] = []
        for recorder in router_recorders(model):
            plain = inspect.isclass(recorder)
            target: Any = recorder if plain else recorder.target_class
            suffix = None if plain else recorder.layer_name
            index = 0 if plain else recorder.index
            for name, module in model.named_modules():
                if isinstance(module, target) and (suffix is None or name.endswith(suffix)):
                    self.layers.append(_layer(name))
                    self._owners.append(_bias_owner(model, name))
                    module.register_forward_hook(self._hook(index, self._owners[-1]))

    @property
    def biases(self) -> list[torch.Tensor | None]:
        """The live buffers: materialising a model replaces them."""
        return [_bias(owner) for owner in self._owners]

    def _hook(self, index: int, owner: Any) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            parts = output if isinstance(output, tuple) else (output,)
            logits = parts[index].flatten(0, -2)
            chosen = next((p for p in parts if not p.is_floating_point()), None)
            if chosen is None:
                chosen = logits.float().softmax(-1).topk(self._top_k, dim=-1).indices
            chosen = chosen.flatten(0, -2)
            if self._diverted is not None:
                # A plain tuple: not every torch can make this dataclass inside a graph.
                self._diverted.append((logits, chosen, _bias(owner)))
            elif self._record is not None:
                self._record.append(Routed(logits, chosen, self._scoring, _bias(owner)))
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

    def divert(self, sink: list[Any] | None) -> None:
        """Send what the hooks see to `sink`, (logits, ids, bias) each, until the next call.

        A compiled block returns it as an output, and `note` records it.
        """
        self._diverted = sink

    def note(self, logits: torch.Tensor, ids: torch.Tensor, bias: torch.Tensor | None) -> None:
        """Record what a compiled block returned, as its hook would have."""
        if self._record is not None:
            self._record.append(Routed(logits, ids, self._scoring, bias))

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


_BIAS = "e_score_correction_bias"


def _bias_owner(model: Any, router: str) -> Any:
    """The module that holds the bias of a router's choice: itself, its block, or None."""
    for name in (router, router.rpartition(".")[0]):
        if _BIAS in dict(model.get_submodule(name).named_buffers(recurse=False)):
            return model.get_submodule(name)
    return None


def _bias(owner: Any) -> torch.Tensor | None:
    return None if owner is None else getattr(owner, _BIAS)


def sets_of(routed: list[Routed]) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids int16 [layers, tokens, k] ascending, gap float32 [layers, tokens])."""
    with torch.no_grad():
        ids = [r.ids.sort(dim=-1).values.to(torch.int16) for r in routed]
        return torch.stack(ids), torch.stack([r.gap() for r in routed])
