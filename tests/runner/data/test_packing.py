"""Packing: every token once, in order; and how small data is shared out."""

from __future__ import annotations

import numpy as np
import pytest

from certify.errors import UsageError
from runner.data import corpus, packing, tokenizer

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def words() -> tokenizer.TextTokenizer:
    return tokenizer.train(corpus.generate(50))


def test_stream_is_the_documents_with_their_marks(words: tokenizer.TextTokenizer) -> None:
    texts = ["ab", "", "中"]
    stream = packing.stream(texts, words, 10**9)
    expected = [i for text in texts for i in [*words.encode([text])[0], 0]]
    assert stream.ids.tolist() == expected
    assert stream.ids.dtype == np.int32
    assert stream.exhausted
    assert stream.texts == tuple(texts)


def test_stream_stops_reading_when_there_is_enough(words: tokenizer.TextTokenizer) -> None:
    asked = []

    def endless():  # type: ignore[no-untyped-def]
        while True:
            asked.append(1)
            yield "some words and more"

    stream = packing.stream(endless(), words, 500)
    assert stream.ids.size >= 500
    assert not stream.exhausted
    assert len(asked) <= 3 * packing.GROUP


def test_long_text_is_cut_at_line_ends_and_loses_nothing(
    words: tokenizer.TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(f"line {number} 一二三" for number in range(200)) + "\nend"
    monkeypatch.setattr(packing, "PIECE", 100)
    pieces = list(packing._pieces(text))
    assert len(pieces) > 10
    assert "".join(pieces) == text
    assert all(piece.endswith("\n") for piece in pieces[:-1])
    ids = packing.stream([text], words, 10**9).ids
    assert words.decode(ids[:-1].tolist()) == text
    assert list(ids).count(0) == 1


def test_windows_predict_every_token_once() -> None:
    ids = np.arange(23, dtype=np.int32)
    found = packing.windows(ids, 5)
    assert found.shape == (4, 6)
    assert found[:, 1:].reshape(-1).tolist() == list(range(1, 21))
    assert found[:, :-1].reshape(-1).tolist() == list(range(20))
    assert packing.windows(ids[:21], 5).shape == (4, 6)
    assert packing.windows(ids[:20], 5).shape == (3, 6)
    assert packing.windows(ids[:5], 5).shape == (0, 6)
    assert packing.windows(ids[:0], 5).shape == (0, 6)


def test_split_holds_the_probe_out() -> None:
    samples = packing.windows(np.arange(1001, dtype=np.int32), 10)
    parts = packing.split(samples, wanted=40, global_batch=4, probe_positions=95, where="x")
    assert parts.train.shape == (40, 11)
    assert parts.probe.shape == (10, 11)
    starts = sorted(parts.train[:, 0].tolist() + parts.probe[:, 0].tolist())
    assert starts == list(range(0, 500, 10))
    # The probe is spread over the text that is used, not taken from one end.
    assert parts.probe[:, 0].tolist() == list(range(0, 500, 50))


@pytest.mark.parametrize(
    ("wanted", "available", "batch", "size"),
    [
        (800, 900, 8, 800),
        (800, 500, 8, 400),
        (800, 399, 8, 200),
        (800, 33, 8, 32),
        (800, 8, 8, 8),
        (70, 50, 8, 48),
        (5, 10, 8, 5),
    ],
)
def test_epoch_of_small_data_ends_where_the_whole_would(
    wanted: int, available: int, batch: int, size: int
) -> None:
    assert packing.epoch_size(wanted, available, batch) == size


def test_too_little_text_says_how_much_is_needed() -> None:
    samples = packing.windows(np.arange(101, dtype=np.int32), 10)
    packing.split(samples, 80, global_batch=5, probe_positions=50, where="x")
    with pytest.raises(UsageError) as caught:
        packing.split(samples, 80, global_batch=6, probe_positions=50, where="few.txt")
    error = caught.value
    assert error.where == "few.txt"
    assert "10 samples" in error.what
    assert "at least 111 tokens" in str(error.expected)
    assert "1.2 times" in str(error.hint)


def test_ids_beyond_the_vocabulary() -> None:
    ids = np.asarray([0, 63, 64], dtype=np.int32)
    packing.check_ids(ids, 65, "x")
    with pytest.raises(UsageError, match="id 64"):
        packing.check_ids(ids, 64, "tok")


def test_unigram_entropy_by_hand() -> None:
    ids = np.asarray([0, 0, 7, 7], dtype=np.int32)
    assert packing.unigram_entropy(ids) == pytest.approx(np.log(2))
