"""From documents to fixed-length samples, as Megatron-LM packs them.

All documents form one stream of ids, each closed by the end-of-text id. Sample i holds the
``seq_length + 1`` ids from position ``i * seq_length``: neighbours share one id, which is the
last label of one and the first input of the next, so that every token but the first is predicted
exactly once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from runner.data.tokenizer import TextTokenizer

PIECE = 1 << 20  # characters that are tokenized at once; a longer text is cut after a line end
GROUP = 64  # documents per call of the tokenizer


@dataclass(frozen=True)
class Stream:
    """ids: int32; texts: the documents they came from; exhausted: there was no more text."""

    ids: npt.NDArray[np.int32]
    texts: tuple[str, ...]
    exhausted: bool


def _pieces(text: str) -> Iterator[str]:
    """A long text in pieces that end with a line, so that no word is cut."""
    start = 0
    while len(text) - start > PIECE:
        end = text.find("\n", start + PIECE)
        if end < 0:
            break
        yield text[start : end + 1]
        start = end + 1
    yield text[start:]


def stream(texts: Iterable[str], tokenizer: TextTokenizer, enough: int) -> Stream:
    """Tokenize documents until there are at least `enough` ids, or no more text."""
    chunks: list[npt.NDArray[np.int32]] = []
    used: list[str] = []
    total = 0
    source = iter(texts)
    close = np.asarray([tokenizer.end_of_text], dtype=np.int32)
    while total < enough:
        group = [text for _, text in zip(range(GROUP), source, strict=False)]
        if not group:
            return Stream(_joined(chunks), tuple(used), exhausted=True)
        used += group
        pieces = [list(_pieces(text)) for text in group]
        encoded = iter(tokenizer.encode([piece for text in pieces for piece in text]))
        for text in pieces:
            chunks += [np.asarray(next(encoded), dtype=np.int32) for _ in text] + [close]
        total = sum(chunk.size for chunk in chunks)
    return Stream(_joined(chunks), tuple(used), exhausted=False)


def _joined(chunks: list[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int32)


def windows(ids: npt.NDArray[np.int32], seq_length: int) -> npt.NDArray[np.int32]:
    """int32 [samples, seq_length + 1]. The rest that fills no sample is left out."""
    count = max((ids.size - 1) // seq_length, 0)
    if not count:
        return np.empty((0, seq_length + 1), dtype=np.int32)
    starts: npt.NDArray[np.int64] = np.arange(count, dtype=np.int64) * seq_length
    return ids[starts[:, None] + np.arange(seq_length + 1)]


@dataclass(frozen=True)
class Split:
    """train and probe: int32 [samples, seq_length + 1]; no sample is in both."""

    train: npt.NDArray[np.int32]
    probe: npt.NDArray[np.int32]


def epoch_size(wanted: int, available: int, global_batch: int) -> int:
    """How many samples an epoch gets when `wanted` may exceed what is `available`.

    The largest divisor of `wanted` that is a whole number of global batches, so that an epoch
    still ends where one of `wanted` samples would; else the largest number of whole batches.
    """
    if wanted <= available:
        return wanted
    for parts in range(2, wanted // global_batch + 1):
        size, rest = divmod(wanted, parts)
        if not rest and size <= available and size % global_batch == 0:
            return size
    return available // global_batch * global_batch


def split(
    samples: npt.NDArray[np.int32], wanted: int, global_batch: int, probe_positions: int, where: str
) -> Split:
    """Hold out an evenly spaced probe and take the first of the other samples for training.

    Raises UsageError, saying how much text is missing, when no global batch is left.
    """
    seq_length = samples.shape[1] - 1
    probe = math.ceil(probe_positions / seq_length)
    if len(samples) < probe + global_batch:
        need, have = (probe + global_batch) * seq_length + 1, len(samples) * seq_length
        raise UsageError(
            f"too little text: {len(samples)} samples of {seq_length} tokens ({have} tokens)",
            where=where,
            expected=f"at least {need} tokens: {probe} held-out samples and one global batch of "
            f"{global_batch} (a few epochs are repeated by themselves)",
            hint=f"give about {math.ceil(need / max(have, 1) * 10) / 10:g} times as much text",
        )
    used = samples[: wanted + probe]
    held = (np.arange(probe, dtype=np.int64) * len(used)) // probe
    chosen: npt.NDArray[np.bool_] = np.ones(len(used), dtype=bool)
    chosen[held] = False
    train = used[chosen]
    return Split(train[: epoch_size(wanted, len(train), global_batch)], used[held])


def check_ids(ids: npt.NDArray[np.int32], vocab_size: int, where: str) -> None:
    """Raises UsageError when an id lies outside the model's vocabulary."""
    if ids.size and (ids.min() < 0 or ids.max() >= vocab_size):
        raise UsageError(
            f"the tokenizer gives id {int(ids.max())}",
            where=where,
            expected=f"ids below {vocab_size}, the vocabulary of the model",
            hint="use the tokenizer that belongs to this model",
        )


def unigram_entropy(ids: npt.NDArray[np.int32]) -> float:
    """Entropy of the token frequencies, nats per token."""
    counts = np.bincount(ids)
    shares = counts[counts > 0] / ids.size
    return float(-(shares * np.log(shares)).sum())
