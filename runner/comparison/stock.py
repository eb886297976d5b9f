"""The float64 oracle of a family without written formulas: its stock class, on one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from runner.callpoints import Fault
from runner.compat import stock_model
from runner.routing import RouterTap, sets_of

if TYPE_CHECKING:
    from runner.comparison.exact import Oracle


def stock_oracle(folder: str) -> Oracle:
    """The oracle's forward for a checkpoint folder. Raises what transformers raises."""
    from reference_runs.stock_oracle import StockOracle

    model = stock_model(folder, "eager", torch.float32)
    model.config._experts_implementation = "eager"
    tap = RouterTap(model, Fault())

    def forward(model: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, dict[int, Any]]:
        with tap.recording() as routed:
            logits = model(input_ids=tokens, use_cache=False).logits
        if not routed:
            return logits, {}
        sets, gap = sets_of(routed)
        return logits, {layer: (sets[i], gap[i]) for i, layer in enumerate(tap.layers)}

    return StockOracle(model, forward).forward
