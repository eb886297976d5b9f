"""Intervals of a mean, a trend and a ratio, and the equivalence decision taken from them.

Step-to-step noise of a training run is autocorrelated, so the naive interval of a mean is too
narrow. Here a series is cut into consecutive blocks and the spread of the block means is used
(batch means). Block rule: at least `Blocks.smallest` steps a block, at most `Blocks.most` blocks,
so that longer series get longer blocks. Blocks that are not long against the memory of the series
still correlate; the variance is therefore multiplied by the ratio that would make it unbiased if
the series were AR(1) with the lag-1 correlation found (`_memory_factor`, never below 1). With it
the false-pass rate of a nominal 5% test stays within 4% to 6% for lag-1 correlations 0 to 0.8
(docs/criteria.md has the table, the tests repeat it).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.criteria.statistics.distributions import student_t_quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Blocks:
    """How a series is cut. smallest: steps a block has at least; most, fewest: number of blocks."""

    smallest: int
    most: int
    fewest: int

    def count(self, n: int) -> int:
        """Number of blocks for n steps; below `fewest` no interval is given."""
        return min(self.most, n // self.smallest)

    @property
    def steps_needed(self) -> int:
        """The fewest steps that give an interval."""
        return self.smallest * self.fewest


@dataclass(frozen=True)
class Interval:
    """estimate with a two-sided interval of confidence 1 - 2 alpha; n: observations used."""

    estimate: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


def _sum(values: Iterable[float]) -> float:
    """Sum without rounding loss. Where that overflows, plain addition gives the infinity or NaN."""
    kept = list(values)
    try:
        return math.fsum(kept)
    except (OverflowError, ValueError):
        return sum(kept)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, summed without rounding loss."""
    return _sum(values) / len(values)


def standard_deviation(values: Sequence[float]) -> float:
    """Sample standard deviation (n - 1 in the denominator); 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.sqrt(_sum((v - centre) * (v - centre) for v in values) / (len(values) - 1))


def root_mean_square(values: Sequence[float]) -> float:
    """Root of the mean square (spread about zero)."""
    return math.sqrt(_sum(v * v for v in values) / len(values))


def median(values: Sequence[float]) -> float:
    """The middle value."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def lag_one_correlation(values: Sequence[float]) -> float:
    """Lag-1 autocorrelation, corrected for its small-sample bias of -(1 + 3 rho) / n
    (Kendall 1954), limited to [0, 0.99]; 0 for a constant series."""
    n = len(values)
    centre = mean(values)
    deviations = [v - centre for v in values]
    variance = _sum(d * d for d in deviations)
    if variance == 0:
        return 0.0
    products = (a * b for a, b in itertools.pairwise(deviations))
    rho = _sum(products) / variance
    return min(max(rho + (1 + 3 * rho) / n, 0.0), 0.99)


def _variance_of_mean(rho: float, n: float) -> float:
    """Variance of the mean of n consecutive AR(1) values of variance 1 and correlation rho."""
    apart = 1 - rho
    return (1 + rho) / apart / n - 2 * rho * (1 - math.pow(rho, n)) / (apart * apart * n * n)


def _memory_factor(rho: float, n: int, blocks: int) -> float:
    """True variance of the mean over the expected batch-means estimate, for an AR(1) series."""
    whole, block = _variance_of_mean(rho, n), _variance_of_mean(rho, n / blocks)
    # E[s^2 of block means] / blocks = (block - whole) / (blocks - 1)
    return max(1.0, (blocks - 1) * whole / (block - whole))


def _block_means(values: Sequence[float], blocks: int) -> tuple[list[float], list[float]]:
    """Block means and block centres (in steps). Block sizes differ by at most one."""
    n = len(values)
    edges = [i * n // blocks for i in range(blocks + 1)]
    pairs = list(itertools.pairwise(edges))
    return [mean(values[a:b]) for a, b in pairs], [(a + b - 1) / 2 for a, b in pairs]


def mean_interval(values: Sequence[float], alpha: float, rule: Blocks) -> Interval | None:
    """Interval of the mean of an autocorrelated series; None when it is too short.

    A constant series has an interval of width zero.
    """
    n, blocks = len(values), rule.count(len(values))
    if blocks < rule.fewest:
        return None
    means, _ = _block_means(values, blocks)
    factor = _memory_factor(lag_one_correlation(values), n, blocks)
    error = standard_deviation(means) * math.sqrt(factor / blocks)
    half = student_t_quantile(1 - alpha, blocks - 1) * error
    centre = mean(values)
    return Interval(centre, centre - half, centre + half, n)


def trend_interval(values: Sequence[float], alpha: float, rule: Blocks) -> Interval | None:
    """Interval of the change over the whole series along its least-squares line.

    The line is fitted to block means; the estimate is slope times length. None when too short.
    """
    n, blocks = len(values), rule.count(len(values))
    if blocks < max(rule.fewest, 3):
        return None
    means, centres = _block_means(values, blocks)
    middle, level = mean(centres), mean(means)
    spread = _sum((x - middle) * (x - middle) for x in centres)
    slope = _sum((x - middle) * (y - level) for x, y in zip(centres, means, strict=True))
    slope /= spread
    residuals = [y - level - slope * (x - middle) for x, y in zip(centres, means, strict=True)]
    variance = _sum(r * r for r in residuals) / (blocks - 2)
    # The line itself is not memory: correlation is that of what is left beside it.
    line = [level + slope * (i - middle) for i in range(n)]
    rest = [v - fitted for v, fitted in zip(values, line, strict=True)]
    factor = _memory_factor(lag_one_correlation(rest), n, blocks)
    half = student_t_quantile(1 - alpha, blocks - 2) * math.sqrt(variance * factor / spread) * n
    return Interval(slope * n, slope * n - half, slope * n + half, n)


def independent_interval(values: Sequence[float], alpha: float) -> Interval | None:
    """Interval of the mean of independent values (one per seed); None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    half = student_t_quantile(1 - alpha, n - 1) * standard_deviation(values) / math.sqrt(n)
    centre = mean(values)
    return Interval(centre, centre - half, centre + half, n)


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], alpha: float
) -> Interval | None:
    """Interval of the geometric mean ratio of paired positive values (candidate over baseline).

    Its low end is the one-sided lower bound of error alpha, its high end the upper one.
    """
    logs = [math.log(a / b) for a, b in zip(numerator, denominator, strict=True)]
    found = independent_interval(logs, alpha)
    if found is None:
        return None
    return Interval(math.exp(found.estimate), math.exp(found.low), math.exp(found.high), found.n)


def equivalent(interval: Interval, margin: float) -> bool | None:
    """Two one-sided tests of error alpha each: True when the interval lies inside +-margin,
    False when it lies outside, None when it reaches over an edge."""
    if -margin <= interval.low and interval.high <= margin:
        return True
    if interval.low > margin or interval.high < -margin:
        return False
    return None


def observations_needed(interval: Interval, margin: float) -> int | None:
    """About how many observations would bring the interval inside the margin, were the estimate
    to stay; None when the estimate itself is outside."""
    room = margin - abs(interval.estimate)
    if room <= 0:
        return None
    return math.ceil(interval.n * (interval.half_width / room) ** 2)
