"""Forward pass of the initial weights over the probe samples, through Megatron's schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel import gather_from_tensor_model_parallel_region

from certify.errors import UsageError
from runner.backends.mcore import parallel
from runner.evidence import Probe, position_statistics, probe_row_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from certify.runspec import RunSpec
    from runner.backends.mcore.routing import RouterObserver


def run(chunks: list[Any], observer: RouterObserver, moe: bool, spec: RunSpec) -> Probe:
    """The `Probe` of a model in evaluation mode (collective).

    Data-parallel ranks share the samples in equal contiguous parts, filled up by repeating the
    first sample. Raises UsageError when the probe file cannot be read.
    """
    samples = _samples(spec)
    length = samples.shape[1] - 1
    rank, ranks = parallel.data_rank()
    size, stages = spec.training.micro_batch, spec.parallel.pp_size
    each = -(-len(samples) // ranks)
    count = -(-each // size)
    count += -count % stages  # the interleaved schedule wants a multiple
    mine = samples[rank * each : (rank + 1) * each]
    filled = torch.cat([mine, samples[:1].expand(count * size - len(mine), -1)])
    index = probe_row_index(samples.shape[0] * length, spec.evidence.probe_rows)
    first = rank * each * length
    own = index[(index >= first) & (index < first + len(mine) * length)] - first
    found = _forward(chunks, filled, size, spec, torch.from_numpy(own))
    parts: list[Any] = parallel.everyone((rank, found))
    by_rank = {at: values for at, values in parts if values is not None}
    kept = [min(each, len(samples) - at * each) * length for at in range(ranks)]
    arrays = {
        name: torch.cat([by_rank[at][name][: kept[at]] for at in range(ranks)]).numpy()
        for name in by_rank[0]
        if name != "rows"
    }
    rows = torch.cat([by_rank[at]["rows"] for at in range(ranks)]).numpy()
    probe = Probe(**arrays, row_index=index, rows=rows)
    if moe:
        taken = observer.take(kept[rank])
        probe.topk.update(zip(taken.layers, taken.ids, strict=True))
        probe.topk_gap.update(zip(taken.layers, taken.gap, strict=True))
        observer.take_auxiliary_loss(1)
    return probe


def _forward(
    chunks: list[Any], samples: Tensor, size: int, spec: RunSpec, kept: Tensor
) -> dict[str, Tensor] | None:
    """Statistics of every position and the rows `kept`; None on all ranks but the first of the
    last stage's tensor-parallel group."""
    parts: dict[str, list[Tensor]] = {}
    rows: list[Tensor] = []
    seen = 0

    def step(data: Iterator[Tensor], model: Any) -> tuple[Tensor, Any]:
        part = next(data)
        inputs, labels = part[:, :-1], part[:, 1:]
        where = torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)

        def collect(output: Tensor, non_loss_data: bool = True) -> None:
            nonlocal seen
            logits = gather_from_tensor_model_parallel_region(output).flatten(0, 1)
            for name, value in position_statistics(logits, labels.flatten()).items():
                parts.setdefault(name, []).append(value.cpu())
            here = kept[(kept >= seen) & (kept < seen + len(logits))] - seen
            rows.append(logits[here.to(logits.device)].cpu())
            seen += len(logits)

        return model(inputs, where, None), collect

    for chunk in chunks:
        chunk.eval()
    pieces = samples.to(spec.device).split(size)
    with torch.no_grad():
        get_forward_backward_func()(
            forward_step_func=step,
            data_iterator=[iter(pieces) for _ in chunks],
            model=chunks,
            num_microbatches=len(pieces),
            seq_length=spec.data.seq_length,
            micro_batch_size=size,
            forward_only=True,
            collect_non_loss_data=True,
        )
    for chunk in chunks:
        chunk.train()
    if not (parallel.is_last_stage() and parallel.first_of_tensor_parallel()):
        return None
    return {**{name: torch.cat(values) for name, values in parts.items()}, "rows": torch.cat(rows)}


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
