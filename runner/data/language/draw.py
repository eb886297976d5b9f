"""Random choices that keep account of their probability.

The sum of ``-log p`` over all choices is the code length of a text under its own generator, which
bounds the loss that any model can reach on it (see `runner.data.corpus.loss_floor`). Only
`random.Random.random` is used, whose sequence Python guarantees for a seed.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
REUSE = 0.3  # share of draws that repeat a word of the same document, in proportion to its use


@lru_cache(maxsize=256)
def _zipf(count: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(probabilities, their running sums) of a Zipf-like law over ranks 0..count-1."""
    weights = [1.0 / (rank + 2.0) for rank in range(count)]
    total = sum(weights)
    probabilities = tuple(weight / total for weight in weights)
    return probabilities, tuple(itertools.accumulate(probabilities))


class Draw:
    """A seeded source of choices. nats: code length of all choices so far."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random
        self.nats = 0.0

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        hit = self._random() < probability
        self.nats -= math.log(probability if hit else 1.0 - probability)
        return hit

    def even(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        self.nats += math.log(len(options))
        return options[int(self._random() * len(options))]

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the earlier ones are likelier, as words in a language are."""
        probabilities, sums = _zipf(len(options))
        at = min(bisect.bisect_right(sums, self._random()), len(options) - 1)
        self.nats -= math.log(probabilities[at])
        return options[at]

    def pick_again(self, options: Sequence[T], used: list[T]) -> T:
        """As `pick`, but a document repeats its own words: some draws come from ``used``.

        The chosen option is appended to ``used``. Its exact probability under the mixture is
        counted, whichever of the two ways produced it.
        """
        probabilities, sums = _zipf(len(options))
        if used and self._random() < REUSE:
            chosen = used[int(self._random() * len(used))]
        else:
            at = min(bisect.bisect_right(sums, self._random()), len(options) - 1)
            chosen = options[at]
        fresh = probabilities[options.index(chosen)]
        if used:
            fresh = (1.0 - REUSE) * fresh + REUSE * used.count(chosen) / len(used)
        self.nats -= math.log(fresh)
        used.append(chosen)
        return chosen
