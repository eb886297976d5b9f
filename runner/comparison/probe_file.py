"""Reads ``probe.safetensors`` with its rows of logits left on the disk.

`runner.evidence.read_probe` reads everything, which at a vocabulary of 150,000 and 4,096 rows is
2.5 GB a side. The layout is that module's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from certify.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt


class ProbeFile:
    """One side's probe. Fields are those of `runner.evidence.Probe`; sets and set_gap are its
    topk and topk_gap, and rows are read by range.

    Raises UsageError when the file is no probe.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            file: Any = safe_open(str(self.path), framework="np")
            names = set(file.keys())
            self.argmax: npt.NDArray[np.int32] = file.get_tensor("argmax")
            self.label_logprob: npt.NDArray[np.float32] = file.get_tensor("label_logprob")
            self.row_index: npt.NDArray[np.int64] = file.get_tensor("row_index")
            self._rows = file.get_slice("rows")
        except (SafetensorError, OSError) as error:
            raise UsageError(
                f"cannot read the probe: {error}",
                where=str(self.path),
                expected="a complete file written by runner.evidence",
                hint="run that phase again",
            ) from None
        self.vocabulary = int(self._rows.get_shape()[1])
        self.layers = sorted(int(n.removeprefix("topk.")) for n in names if n.startswith("topk."))
        self.sets: dict[int, npt.NDArray[np.int16]] = {
            layer: file.get_tensor(f"topk.{layer}") for layer in self.layers
        }
        self.set_gap: dict[int, npt.NDArray[np.float32]] = {
            layer: file.get_tensor(f"topk_gap.{layer}") for layer in self.layers
        }

    def rows(self, start: int, stop: int) -> torch.Tensor:
        """float32 [stop - start, vocabulary] of the kept rows."""
        if start >= stop:
            return torch.empty((0, self.vocabulary))
        return torch.from_numpy(self._rows[start:stop])

    def require(self, n: int, reference: ProbeFile, side: str) -> None:
        """Raises UsageError unless this is about the same n positions as the reference's file."""
        found = (len(self.argmax), self.vocabulary, self.layers)
        expected = (n, reference.vocabulary, reference.layers)
        same = found == expected and np.array_equal(self.row_index, reference.row_index)
        if not same or any(self.sets[at].shape != reference.sets[at].shape for at in self.layers):
            raise UsageError(
                f"the {side}'s probe has (positions, vocabulary, routed layers) {found}",
                where=str(self.path),
                expected=f"{expected}, the same kept rows and top-k sizes as the reference",
                hint="both runs must be given the same probe file and probe_rows",
            )
