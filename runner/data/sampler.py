"""Which samples make up global batch k: a pure function of (seed, k), on every topology.

The order is a permutation per epoch, drawn from numpy's PCG64 seeded by (shuffle_seed, epoch).
Only the raw bit stream of PCG64 is used: numpy guarantees that one across versions, while the
stream of `Generator.permutation` may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from certify.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt


@lru_cache(maxsize=4)
def epoch_order(n_samples: int, shuffle_seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The permutation of one epoch, int64 [n_samples]: each sample exactly once."""
    bits = np.random.PCG64(np.random.SeedSequence([shuffle_seed, epoch]))
    order = np.argsort(bits.random_raw(n_samples), kind="stable").astype(np.int64)
    order.setflags(write=False)
    return order


@dataclass(frozen=True)
class Sampler:
    """The concatenated epochs, cut into global batches of `global_batch` samples.

    A batch may span two epochs. There is no state to restore: the data cursor of a run is the
    index of its next batch.
    """

    n_samples: int
    global_batch: int
    shuffle_seed: int

    def __post_init__(self) -> None:
        if self.n_samples < 1 or self.global_batch < 1 or self.shuffle_seed < 0:
            raise UsageError(
                f"cannot order {self.n_samples} samples in batches of {self.global_batch} "
                f"with seed {self.shuffle_seed}",
                expected="at least one sample, a batch of at least one, a seed of at least 0",
            )

    def batch(self, index: int) -> npt.NDArray[np.int64]:
        """Sample numbers of global batch `index` (from 0), int64 [global_batch]."""
        first = index * self.global_batch
        positions: npt.NDArray[np.int64] = np.arange(
            first, first + self.global_batch, dtype=np.int64
        )
        epochs, offsets = np.divmod(positions, self.n_samples)
        chosen: npt.NDArray[np.int64] = np.empty(self.global_batch, dtype=np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            order = epoch_order(self.n_samples, self.shuffle_seed, int(epoch))
            chosen[here] = order[offsets[here]]
        return chosen
