"""Runs the float64 oracle over the probe and measures both sides' kept rows against it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from runner.evidence import position_statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from runner.comparison.probe_file import ProbeFile

    # int64 [B, S] -> logits float64 [B, S, V], topk and topk_gap by routed layer
    Oracle: TypeAlias = Callable[[torch.Tensor], Any]

BLOCK = 1 << 25  # oracle logits held at once (float64)


@dataclass
class Exact:
    """What the oracle said, over all n positions; rows are compared while they exist.

    argmax int32[n]; gap, label_logprob float64[n]; sets[layer] int16[n, k]; set_gap[layer]
    float64[n]; row_max, row_square: side -> largest and summed squared logit error of each kept
    row; row_oracle_square: summed squared oracle logits of each kept row.
    """

    argmax: npt.NDArray[np.int32]
    gap: npt.NDArray[np.float64]
    label_logprob: npt.NDArray[np.float64]
    sets: dict[int, npt.NDArray[np.int16]]
    set_gap: dict[int, npt.NDArray[np.float64]]
    row_max: dict[str, npt.NDArray[np.float64]]
    row_square: dict[str, npt.NDArray[np.float64]]
    row_oracle_square: npt.NDArray[np.float64]


@dataclass
class _Collected:
    parts: dict[str, list[npt.NDArray[Any]]] = field(default_factory=dict)

    def add(self, name: str, value: torch.Tensor) -> None:
        self.parts.setdefault(name, []).append(value.numpy())

    def take(self, name: str) -> npt.NDArray[Any]:
        return np.concatenate(self.parts[name])


def ask_oracle(
    oracle: Oracle, samples: npt.NDArray[np.int32], sides: dict[str, ProbeFile]
) -> Exact:
    """Run the oracle over the probe, a few samples at a time."""
    first = next(iter(sides.values()))
    length = samples.shape[1] - 1
    step = max(1, BLOCK // (length * first.vocabulary))
    found, layers = _Collected(), []
    for start in range(0, len(samples), step):
        chunk = torch.from_numpy(samples[start : start + step].astype(np.int64))
        output = oracle(chunk[:, :-1])
        logits = output.logits.flatten(0, 1)
        for name, value in position_statistics(logits, chunk[:, 1:].flatten()).items():
            found.add(name, value)
        layers = sorted(output.topk)
        for layer in layers:
            found.add(f"sets.{layer}", output.topk[layer])
            found.add(f"set_gap.{layer}", output.topk_gap[layer])
        _row_errors(logits, start * length, sides, found)
    return Exact(
        argmax=found.take("argmax"),
        gap=found.take("gap"),
        label_logprob=found.take("label_logprob"),
        sets={layer: found.take(f"sets.{layer}") for layer in layers},
        set_gap={layer: found.take(f"set_gap.{layer}") for layer in layers},
        row_max={side: found.take(f"max.{side}") for side in sides},
        row_square={side: found.take(f"square.{side}") for side in sides},
        row_oracle_square=found.take("oracle_square"),
    )


def _row_errors(
    logits: torch.Tensor, offset: int, sides: dict[str, ProbeFile], found: _Collected
) -> None:
    """Errors of the kept rows among the oracle's positions [offset, offset + len(logits))."""
    index = next(iter(sides.values())).row_index
    begin = int(np.searchsorted(index, offset))
    end = int(np.searchsorted(index, offset + len(logits)))
    right = logits[torch.from_numpy(index[begin:end] - offset)]
    found.add("oracle_square", right.square().sum(-1))
    for side, file in sides.items():
        error = file.rows(begin, end).double() - right
        # amax passes NaN on; a maximum that dropped it would hide a broken row.
        found.add(f"max.{side}", error.abs().amax(-1) if error.numel() else error.sum(-1))
        found.add(f"square.{side}", error.square().sum(-1))
