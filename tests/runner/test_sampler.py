"""The data order: each sample once per epoch, the same on every topology, forever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from certify.errors import UsageError
from certify.runspec import DataSpec
from runner.data.batches import Batches
from runner.data.sampler import Sampler, epoch_order

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch


def test_batches_are_the_concatenated_epochs() -> None:
    sampler = Sampler(n_samples=10, global_batch=4, shuffle_seed=1)
    seen = np.concatenate([sampler.batch(k) for k in range(5)])
    assert sorted(seen[:10].tolist()) == sorted(seen[10:].tolist()) == list(range(10))
    assert seen[:10].tolist() == epoch_order(10, 1, 0).tolist()
    assert seen[10:].tolist() == epoch_order(10, 1, 1).tolist()
    assert seen[:10].tolist() != seen[10:].tolist()


def test_a_batch_may_hold_more_than_all_samples() -> None:
    counts = np.bincount(Sampler(3, 7, 0).batch(0), minlength=3)
    assert sorted(counts.tolist()) == [2, 2, 3]


def test_the_order_depends_on_the_seed_and_nothing_else() -> None:
    assert Sampler(50, 8, 1).batch(3).tolist() == Sampler(50, 8, 1).batch(3).tolist()
    assert Sampler(50, 8, 1).batch(3).tolist() != Sampler(50, 8, 2).batch(3).tolist()
    np.random.seed(0)
    before = epoch_order(20, 5, 2).tolist()
    epoch_order.cache_clear()
    np.random.seed(1)
    assert epoch_order(20, 5, 2).tolist() == before


def test_the_order_is_pinned() -> None:
    """A change of this order would make recorded trajectories incomparable."""
    assert epoch_order(8, 42, 0).tolist() == PINNED


PINNED = [4, 1, 3, 6, 0, 7, 2, 5]


@pytest.mark.parametrize("arguments", [(0, 4, 1), (4, 0, 1), (4, 4, -1)])
def test_refuses_what_cannot_be_ordered(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError):
        Sampler(*arguments)


def data(folder: Path, vocab_size: int = 50, **changes: str) -> DataSpec:
    tokens = np.arange(12 * 5, dtype=np.int32).reshape(12, 5) % 50
    np.save(folder / "samples.npy", tokens)
    np.save(folder / "mask.npy", (tokens[:, 1:] % 3 > 0).astype(np.uint8))
    files = {"samples_file": str(folder / "samples.npy"), "mask_file": str(folder / "mask.npy")}
    return DataSpec(n_samples=12, seq_length=4, vocab_size=vocab_size, shuffle_seed=3,
                    **{**files, **changes})  # fmt: skip


def test_ranks_together_hold_the_global_batch(tmp_path: Path) -> None:
    batches = Batches(data(tmp_path), global_batch=6)
    whole = batches.read(1)
    for parts in (2, 3, 6):
        ranks = [batches.read(1, part, parts) for part in range(parts)]
        assert np.array_equal(np.concatenate([r.tokens for r in ranks]), whole.tokens)
        assert np.array_equal(np.concatenate([r.mask for r in ranks]), whole.mask)
        assert [d for r in ranks for d in r.token_digests()] == whole.token_digests()
        assert sum(r.supervised_tokens for r in ranks) == whole.supervised_tokens
    assert np.array_equal(whole.inputs[:, 1:], whole.labels[:, :-1])


def test_refuses_indivisible_batches_and_foreign_tokens(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be shared by 4 ranks"):
        Batches(data(tmp_path), global_batch=6).read(0, 0, 4)
    with pytest.raises(UsageError, match="token ids"):
        Batches(data(tmp_path, vocab_size=10), global_batch=6).read(0)


def test_refuses_files_that_are_not_what_the_spec_says(tmp_path: Path) -> None:
    spec = data(tmp_path, mask_file=str(tmp_path / "samples.npy"))
    with pytest.raises(UsageError, match="samples of shape"):
        Batches(spec, global_batch=6)
    with pytest.raises(UsageError, match="cannot read samples"):
        Batches(data(tmp_path, samples_file=str(tmp_path / "absent.npy")), global_batch=6)
