"""Forward pass of the initial weights over the probe samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from certify.errors import UsageError
from runner.evidence import Probe, position_statistics, probe_row_index

if TYPE_CHECKING:
    from torch import nn

    from certify.runspec import RunSpec
    from runner.backends.mcore.routing import RouterObserver


def run(model: nn.Module, observer: RouterObserver, spec: RunSpec) -> Probe:
    """The `Probe` of a model in evaluation mode, one global batch of samples at a time.

    Raises UsageError when the probe file cannot be read.
    """
    samples = _samples(spec)
    length = samples.shape[1] - 1
    index = probe_row_index(samples.shape[0] * length, spec.evidence.probe_rows)
    parts: dict[str, list[torch.Tensor]] = {}
    rows: list[torch.Tensor] = []
    model.eval()
    for first in range(0, len(samples), spec.training.global_batch):
        chunk = samples[first : first + spec.training.global_batch].to(spec.device)
        inputs, labels = chunk[:, :-1], chunk[:, 1:]
        where = torch.arange(length, device=inputs.device).expand_as(inputs)
        with torch.no_grad():
            logits = model(inputs, where, None).flatten(0, 1)
        for name, value in position_statistics(logits, labels.flatten()).items():
            parts.setdefault(name, []).append(value.cpu())
        start = first * length
        kept = index[(index >= start) & (index < start + len(logits))] - start
        rows.append(logits[torch.from_numpy(kept).to(logits.device)].cpu())
    model.train()
    arrays = {name: torch.cat(values).numpy() for name, values in parts.items()}
    probe = Probe(**arrays, row_index=index, rows=torch.cat(rows).numpy())
    if observer.layers:
        ids, gap = observer.take()
        probe.topk.update(zip(observer.layers, ids, strict=True))
        probe.topk_gap.update(zip(observer.layers, gap, strict=True))
        observer.take_auxiliary_loss(1)
    return probe


def _samples(spec: RunSpec) -> torch.Tensor:
    file = str(spec.evidence.probe_file)
    try:
        samples = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the probe: {error}", where=file) from None
    if samples.ndim != 2 or samples.shape[1] != spec.data.seq_length + 1:
        raise UsageError(
            f"a probe of shape {samples.shape}",
            where=file,
            expected=f"(samples, {spec.data.seq_length + 1})",
        )
    return torch.from_numpy(samples.astype("int64"))
