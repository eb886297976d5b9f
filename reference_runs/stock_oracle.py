"""A stock class of transformers in float64: the yardstick where no formulas are written out.

It can show what a device, a precision or a distribution does to a model, but not a fault of the
class itself: both sides then have it. The classes cast parts of their work to float32 (norms,
softmax, routers); here these casts are lifted. Rotary angles stay as published, in float32, and
so do their cosines.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from reference_runs.oracle import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

_FLOAT32 = torch.float32
_TO_FLOAT = torch.Tensor.float


@contextmanager
def _casts_lifted() -> Iterator[None]:
    """Inside, float32 means float64 to whoever looks it up in torch."""
    with (
        mock.patch.object(torch, "float32", torch.float64),
        mock.patch.object(torch, "float", torch.float64),
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        yield


@contextmanager
def _casts_as_published() -> Iterator[None]:
    with (
        mock.patch.object(torch, "float32", _FLOAT32),
        mock.patch.object(torch, "float", _FLOAT32),
        mock.patch.object(torch.Tensor, "float", _TO_FLOAT),
    ):
        yield


class StockOracle:
    """One model in float64.

    model: a stock model; forward: called as ``forward(model, tokens)``, returns (logits
    [B, S, V], layer -> (sets int16 [n, k], gap [n])).
    """

    def __init__(self, model: Any, forward: Callable[[Any, Tensor], Any]) -> None:
        self.model = model.double().eval()
        self._forward = forward
        for module in self.model.modules():
            frequencies = [n for n, _ in module.named_buffers(recurse=False) if "inv_freq" in n]
            if frequencies:
                _keep_published(module, frequencies)

    def forward(self, tokens: Tensor) -> Output:
        """tokens: int64 [B, S]."""
        with torch.no_grad(), _casts_lifted():
            logits, routed = self._forward(self.model, tokens)
        sets = {layer: found[0] for layer, found in routed.items()}
        return Output(logits, sets, {layer: found[1] for layer, found in routed.items()}, {})


def _keep_published(module: Any, frequencies: list[str]) -> None:
    """Rotary angles in float32, whose rounding belongs to the model."""
    stock = module.forward
    for name in frequencies:
        setattr(module, name, getattr(module, name).to(_FLOAT32))

    def forward(*args: Any, **kwargs: Any) -> Any:
        with _casts_as_published():
            return stock(*args, **kwargs)

    module.forward = forward
