"""Reads the samples of a global batch, or the contiguous part of it that one rank trains on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from certify.errors import UsageError
from certify.records import sample_digest
from runner.data.sampler import Sampler

if TYPE_CHECKING:
    import numpy.typing as npt

    from certify.runspec import DataSpec


@dataclass(frozen=True)
class Batch:
    """Samples in global order.

    index: global batch number, from 0; tokens: int32 [n, seq_length + 1], inputs are [:, :-1]
    and labels [:, 1:]; mask: uint8 [n, seq_length], 1 where the label is in the loss.
    """

    index: int
    tokens: npt.NDArray[np.int32]
    mask: npt.NDArray[np.uint8]

    @property
    def inputs(self) -> npt.NDArray[np.int32]:
        """int32 [n, seq_length]."""
        return self.tokens[:, :-1]

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """int32 [n, seq_length]."""
        return self.tokens[:, 1:]

    @property
    def supervised_tokens(self) -> int:
        """Labels in the loss."""
        return int(self.mask.sum(dtype=np.int64))

    def token_digests(self) -> list[str]:
        """`sample_digest` of the ids of each sample; their `batch_digest` is tokens_sha256."""
        return [sample_digest(row.astype("<i4").tobytes()) for row in self.tokens]

    def mask_digests(self) -> list[str]:
        """`sample_digest` of the mask of each sample; their `batch_digest` is mask_sha256."""
        return [sample_digest(b"", row.tobytes()) for row in self.mask]


class Batches:
    """The prepared samples of a run, memory-mapped.

    Raises UsageError when a file is missing or has another shape than the spec says.
    """

    def __init__(self, data: DataSpec, global_batch: int) -> None:
        self.data = data
        self.sampler = Sampler(data.n_samples, global_batch, data.shuffle_seed)
        self._tokens = _mapped(data.samples_file, (data.n_samples, data.seq_length + 1), np.int32)
        self._mask = (
            _mapped(data.mask_file, (data.n_samples, data.seq_length), np.uint8)
            if data.mask_file is not None
            else None
        )

    def read(self, index: int, part: int = 0, parts: int = 1) -> Batch:
        """Part `part` of `parts` equal contiguous parts of global batch `index`.

        Raises UsageError when the global batch cannot be cut that way, and when a token id is
        outside the vocabulary.
        """
        size, rest = divmod(self.sampler.global_batch, parts)
        if rest:
            raise UsageError(
                f"a global batch of {self.sampler.global_batch} cannot be shared by {parts} ranks",
                where="training.global_batch",
                expected=f"a multiple of {parts}",
            )
        chosen = self.sampler.batch(index)[part * size : (part + 1) * size]
        tokens = np.asarray(self._tokens[chosen])
        if tokens.min() < 0 or tokens.max() >= self.data.vocab_size:
            raise UsageError(
                f"token ids from {tokens.min()} to {tokens.max()} in batch {index}",
                where=self.data.samples_file,
                expected=f"ids from 0 to {self.data.vocab_size - 1} (the model's vocabulary)",
                hint="prepare the data with the tokenizer of this model",
            )
        if self._mask is None:
            return Batch(index, tokens, np.ones((size, self.data.seq_length), dtype=np.uint8))
        return Batch(index, tokens, np.asarray(self._mask[chosen]))


def _mapped(file: str, shape: tuple[int, int], dtype: type[np.generic]) -> npt.NDArray[np.generic]:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read samples: {error}", where=file) from None
    if array.shape != shape or array.dtype != dtype:
        raise UsageError(
            f"samples of shape {array.shape} and type {array.dtype}",
            where=file,
            expected=f"shape {shape} and type {np.dtype(dtype)}",
            hint="prepare the data again",
        )
    return array
