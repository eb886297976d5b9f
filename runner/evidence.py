"""Artefacts beside the records: names, layout, and the only code that writes or reads them.

Everything here is in canonical order: the probe in the order of the probe file, tensors under the
names of the published Hugging Face checkpoint, routing in the sample order of the global batch.
Both backends write with these functions and `runner.compare` reads with them, so a layout can
only change for all at once. Needs torch, numpy and safetensors; nothing of a backend.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_numpy
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch

from certify.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

PROBE = "probe.safetensors"
GRADIENTS = "gradients-step-1.safetensors"
PARAMETERS = "params-step-1.safetensors"
ROUTING = "routing.npz"


def evidence_path(run_dir: str | Path, name: str) -> Path:
    """Where a run keeps one artefact. name: PROBE, GRADIENTS, PARAMETERS or ROUTING."""
    return Path(run_dir) / "evidence" / name


def file_sha256(path: str | Path) -> str:
    """sha256 of a file, hex."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _replace(path: Path, write: Callable[[str], None]) -> None:
    """Write a file so that its name only ever stands for a complete one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        write(str(partial))
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise InfrastructureError(
            f"cannot write evidence: {error}", where=str(path), hint="free space on that disk"
        ) from error


def _existing(path: Path) -> str:
    if not path.is_file():
        raise UsageError(
            "an evidence file is missing",
            where=str(path),
            expected="a file written by a run whose spec asks for it",
            hint="run that phase again",
        )
    return str(path)


# ---------------------------------------------------------------------------------------------
# Full tensors by canonical name (gradients, parameters).


def write_tensors(run_dir: str | Path, name: str, tensors: Mapping[str, torch.Tensor]) -> Path:
    """Write full tensors under canonical names. Raises InfrastructureError (a full disk)."""
    path = evidence_path(run_dir, name)
    ready = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    _replace(path, lambda partial: save_torch(ready, partial))
    return path


def read_tensors(run_dir: str | Path, name: str) -> dict[str, torch.Tensor]:
    """What `write_tensors` wrote. Raises UsageError when the file is missing."""
    tensors: dict[str, torch.Tensor] = load_torch(_existing(evidence_path(run_dir, name)))
    return tensors


# ---------------------------------------------------------------------------------------------
# Top-k sets of a router.


def topk_sets(
    probabilities: torch.Tensor, k: int, selected: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, gap) of router probabilities [n, experts].

    ids: int16 [n, k], ascending per token: `selected` where the router says what it took, else
    the k largest. gap: float32 [n], the k-th largest probability minus the next: how near the
    set is to being another one; the k-th itself when there is no next.
    """
    n_experts = probabilities.shape[-1]
    best = torch.topk(probabilities.float(), min(k + 1, n_experts), dim=-1)
    gap = best.values[:, k - 1]
    if k < n_experts:
        gap = gap - best.values[:, k]
    ids = best.indices[:, :k] if selected is None else selected
    return ids.sort(dim=-1).values.to(torch.int16), gap.to(torch.float32)


def routing_digest(ids: npt.NDArray[np.int16]) -> str:
    """sha256 of the top-k sets of one step. ids: int16 [layers, tokens, k], ascending per token."""
    head = f"routing[{','.join(map(str, ids.shape))}]\0".encode()
    return hashlib.sha256(head + np.ascontiguousarray(ids, dtype="<i2").tobytes()).hexdigest()


@dataclass(frozen=True)
class Routing:
    """Top-k sets of all steps of a run.

    ids: int16 [steps, layers, tokens, k], ascending per token; gap: float32 [steps, layers,
    tokens]; steps: int64 [steps], the step number of each row; layers: int64 [layers], which
    decoder layers have a router. tokens: those of the global batch, in sample order.
    """

    ids: npt.NDArray[np.int16]
    gap: npt.NDArray[np.float32]
    steps: npt.NDArray[np.int64]
    layers: npt.NDArray[np.int64]


class RoutingLog:
    """Collects the routing of a run in memory and writes it once, at the end."""

    def __init__(self, layers: list[int]) -> None:
        self._layers = layers
        self._steps: list[int] = []
        self._ids: list[npt.NDArray[np.int16]] = []
        self._gap: list[npt.NDArray[np.float32]] = []

    def append(self, step: int, ids: npt.NDArray[np.int16], gap: npt.NDArray[np.float32]) -> None:
        """ids: [layers, tokens, k]; gap: [layers, tokens]."""
        self._steps.append(step)
        self._ids.append(ids.astype(np.int16))
        self._gap.append(gap.astype(np.float32))

    def write(self, run_dir: str | Path) -> Path | None:
        """Write ``routing.npz``; None when no step was recorded."""
        if not self._steps:
            return None
        path = evidence_path(run_dir, ROUTING)

        def save(partial: str) -> None:
            with open(partial, "wb") as file:
                np.savez(
                    file,
                    ids=np.stack(self._ids),
                    gap=np.stack(self._gap),
                    steps=np.asarray(self._steps, dtype=np.int64),
                    layers=np.asarray(self._layers, dtype=np.int64),
                )

        _replace(path, save)
        return path


def read_routing(run_dir: str | Path) -> Routing:
    """What `RoutingLog` wrote. Raises UsageError when the file is missing."""
    with np.load(_existing(evidence_path(run_dir, ROUTING))) as file:
        return Routing(file["ids"], file["gap"], file["steps"], file["layers"])


# ---------------------------------------------------------------------------------------------
# The probe: a forward pass of the initial weights.


def probe_row_index(n: int, rows: int) -> npt.NDArray[np.int64]:
    """Which of n positions keep their full row of logits: evenly spaced, at most `rows`."""
    count = min(n, rows)
    return (np.arange(count, dtype=np.int64) * n) // max(count, 1)


@dataclass(frozen=True)
class Probe:
    """The forward pass over n = samples x seq_length positions, in probe order.

    argmax int32[n]; gap f32[n], best minus second logit; lse f32[n], log-sum-exp of the logits;
    label_logprob f32[n]; row_index int64[R] and rows f32[R, vocabulary], the full logits that
    were kept; topk[layer] int16[n, k], ascending per token, and topk_gap[layer] f32[n].
    """

    argmax: npt.NDArray[np.int32]
    gap: npt.NDArray[np.float32]
    lse: npt.NDArray[np.float32]
    label_logprob: npt.NDArray[np.float32]
    row_index: npt.NDArray[np.int64]
    rows: npt.NDArray[np.float32]
    topk: dict[int, npt.NDArray[np.int16]] = field(default_factory=dict)
    topk_gap: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)


def position_statistics(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    """argmax, gap, lse and label_logprob of logits [n, vocabulary] and labels [n].

    Computed in the precision of the logits (float64 for the oracle), at least float32.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    best = torch.topk(logits, 2, dim=-1)
    lse = torch.logsumexp(logits, dim=-1)
    label = logits.gather(-1, labels.long()[:, None])[:, 0]
    return {
        "argmax": best.indices[:, 0].to(torch.int32),
        "gap": best.values[:, 0] - best.values[:, 1],
        "lse": lse,
        "label_logprob": label - lse,
    }


def write_probe(run_dir: str | Path, probe: Probe) -> Path:
    """Write ``probe.safetensors``. Raises InfrastructureError (a full disk)."""
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "argmax": probe.argmax.astype(np.int32),
        "gap": probe.gap.astype(np.float32),
        "lse": probe.lse.astype(np.float32),
        "label_logprob": probe.label_logprob.astype(np.float32),
        "row_index": probe.row_index.astype(np.int64),
        "rows": probe.rows.astype(np.float32),
    }
    for layer, ids in probe.topk.items():
        arrays[f"topk.{layer}"] = ids.astype(np.int16)
        arrays[f"topk_gap.{layer}"] = probe.topk_gap[layer].astype(np.float32)
    path = evidence_path(run_dir, PROBE)
    ready = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    _replace(path, lambda partial: save_numpy(ready, partial))
    return path


def read_probe(run_dir: str | Path) -> Probe:
    """What `write_probe` wrote. Raises UsageError when the file is missing."""
    arrays = load_numpy(_existing(evidence_path(run_dir, PROBE)))

    def by_layer(prefix: str) -> dict[int, npt.NDArray[np.generic]]:
        found = {int(n[len(prefix) :]): a for n, a in arrays.items() if n.startswith(prefix)}
        return dict(sorted(found.items()))

    return Probe(
        argmax=arrays["argmax"],
        gap=arrays["gap"],
        lse=arrays["lse"],
        label_logprob=arrays["label_logprob"],
        row_index=arrays["row_index"],
        rows=arrays["rows"],
        topk=by_layer("topk."),
        topk_gap=by_layer("topk_gap."),
    )
