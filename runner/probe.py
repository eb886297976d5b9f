"""The forward pass of the probe through the sharded model, as evidence for forward parity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from certify.errors import UsageError
from runner.collectives import gather_bytes
from runner.evidence import Probe, position_statistics, probe_row_index, write_probe
from runner.routing import sets_of

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from runner.routing import RouterTap

TOKENS_PER_FORWARD = 2048


class ProbeRun:
    """One rank's share of the probe: a contiguous block of samples, the same number on every
    rank (the last blocks are filled up with the last sample, and cut again when gathered)."""

    def __init__(self, samples: npt.NDArray[np.int32], rows: int, device: torch.device) -> None:
        self.n_samples, self.length = samples.shape[0], samples.shape[1] - 1
        self.device = device
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.share = -(-self.n_samples // self.ranks)
        numbers = np.arange(self.rank * self.share, (self.rank + 1) * self.share)
        self.mine = samples[np.minimum(numbers, self.n_samples - 1)]
        n = self.n_samples * self.length
        self.row_index = probe_row_index(n, rows)
        first = self.rank * self.share * self.length
        last = first + self.share * self.length
        inside = (self.row_index >= first) & (self.row_index < last)
        self.my_rows = torch.from_numpy(self.row_index[inside] - first).to(device)
        self.rows_per_rank = [
            int(((self.row_index // (self.share * self.length)) == r).sum())
            for r in range(self.ranks)
        ]

    def forward(self, model: Any, tap: RouterTap) -> dict[str, torch.Tensor]:
        """Statistics of this rank's positions, and its rows of logits under ``rows``."""
        step = max(1, TOKENS_PER_FORWARD // self.length)
        collected: dict[str, list[torch.Tensor]] = {}
        for start in range(0, self.share, step):
            tokens = torch.from_numpy(self.mine[start : start + step].astype(np.int64))
            tokens = tokens.to(self.device)
            with tap.recording() as routed:
                logits = model(input_ids=tokens[:, :-1], use_cache=False).logits.flatten(0, 1)
            found = position_statistics(logits, tokens[:, 1:].flatten())
            offset = start * self.length
            here = (self.my_rows >= offset) & (self.my_rows < offset + logits.shape[0])
            found["rows"] = logits[self.my_rows[here] - offset].float()
            if routed:
                ids, gap = sets_of(routed)
                for i, layer in enumerate(tap.layers):
                    found[f"topk.{layer}"], found[f"topk_gap.{layer}"] = ids[i], gap[i]
            for key, value in found.items():
                collected.setdefault(key, []).append(value)
        return {key: torch.cat(values) for key, values in collected.items()}

    def gather(self, mine: dict[str, torch.Tensor]) -> dict[str, npt.NDArray[Any]]:
        """The statistics of all positions, in probe order (collective)."""
        whole: dict[str, npt.NDArray[Any]] = {}
        most = max(self.rows_per_rank)
        for key, value in mine.items():
            if key == "rows":
                padding = value.new_zeros((most - value.shape[0], value.shape[1]))
                parts = gather_bytes(torch.cat((value, padding))).cpu().numpy()
                kept = zip(parts, self.rows_per_rank, strict=True)
                whole[key] = np.concatenate([part[:count] for part, count in kept])
            else:
                parts = gather_bytes(value).cpu().numpy()
                whole[key] = np.concatenate(list(parts))[: self.n_samples * self.length]
        return whole


def run_probe(
    model: Any, tap: RouterTap, file: str, rows: int, device: torch.device, run_dir: str
) -> Path | None:
    """Forward the probe and write its evidence on rank 0 (collective). None on other ranks.

    Raises UsageError when the probe file is not an int32 array of samples.
    """
    try:
        samples = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the probe: {error}", where=file) from None
    if samples.ndim != 2 or samples.dtype != np.int32 or samples.shape[0] < 1:
        raise UsageError(
            f"a probe of shape {samples.shape} and type {samples.dtype}",
            where=file,
            expected="int32 [samples, seq_length + 1]",
        )
    share = ProbeRun(samples, rows, device)
    model.eval()
    with torch.no_grad():
        mine = share.forward(model, tap)
    model.train()
    whole = share.gather(mine)
    if dist.get_rank() != 0:
        return None
    layers = tap.layers
    probe = Probe(
        argmax=whole["argmax"],
        gap=whole["gap"],
        lse=whole["lse"],
        label_logprob=whole["label_logprob"],
        row_index=share.row_index,
        rows=whole["rows"],
        topk={layer: whole[f"topk.{layer}"] for layer in layers},
        topk_gap={layer: whole[f"topk_gap.{layer}"] for layer in layers},
    )
    return write_probe(run_dir, probe)
