"""Moving-block bootstrap with a seed: the same series and seed give the same interval."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from certify.criteria.statistics.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
    alpha: float,
    *,
    block: int,
    resamples: int,
    seed: int,
) -> Interval:
    """Percentile interval of confidence 1 - 2 alpha of any statistic of a series.

    block: length of the consecutive pieces that are drawn (1: independent values). Raises
    ValueError for an empty series or a block longer than it.
    """
    n = len(values)
    if not 1 <= block <= n:
        raise ValueError(f"a block of {block} does not fit a series of {n}")
    generator = random.Random(seed)
    drawn: list[float] = []
    for _ in range(resamples):
        sample: list[float] = []
        while len(sample) < n:
            start = generator.randrange(n - block + 1)
            sample.extend(values[start : start + block])
        drawn.append(statistic(sample[:n]))
    drawn.sort()
    return Interval(statistic(values), _percentile(drawn, alpha), _percentile(drawn, 1 - alpha), n)


def _percentile(ordered: Sequence[float], p: float) -> float:
    """Linear interpolation between order statistics."""
    position = p * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
