"""Intervals: against independent calculations, and how often they are wrong on noise that is
known (the table in docs/criteria.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import signal, stats

from certify.criteria.statistics.bootstrap import bootstrap_interval
from certify.criteria.statistics.intervals import (
    Blocks,
    Interval,
    equivalent,
    independent_interval,
    lag_one_correlation,
    mean,
    mean_interval,
    median,
    observations_needed,
    ratio_interval,
    root_mean_square,
    standard_deviation,
    trend_interval,
)

RULE = Blocks(smallest=25, most=20, fewest=4)
ALPHA = 0.05


def ar1(rho: float, n: int, series: int, seed: int = 0) -> list[list[float]]:
    """Stationary AR(1) series of mean zero."""
    shocks = np.random.default_rng(seed).standard_normal((series, n + 100))
    return signal.lfilter([1.0], [1.0, -rho], shocks, axis=1)[:, 100:].tolist()


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 0.8])
def test_false_pass_rate_of_the_drift_test(rho: float) -> None:
    """Series whose mean lies on the margin: each side of the interval may miss it 5% of times."""
    found = [mean_interval(values, ALPHA, RULE) for values in ar1(rho, 200, 3000)]
    wrong = sum((i.high < 0) + (i.low > 0) for i in found if i is not None)
    assert 0.04 <= wrong / (2 * len(found)) <= 0.06


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_false_pass_rate_of_the_trend_test(rho: float) -> None:
    found = [trend_interval(values, ALPHA, RULE) for values in ar1(rho, 100, 2500, seed=1)]
    wrong = sum((i.high < 0) + (i.low > 0) for i in found if i is not None)
    assert 0.04 <= wrong / (2 * len(found)) <= 0.06


@pytest.mark.parametrize(
    ("true", "verdict", "least", "most"),
    [(1.0, True, 0.03, 0.07), (1.0, False, 0.03, 0.07), (0.0, False, 0, 0.005), (2.0, True, 0, 0)],
)
def test_false_passes_and_false_fails_of_the_run_level_rule(
    true: float, verdict: bool, least: float, most: float
) -> None:
    """Drifts of five seeds about a true value in units of the margin: the table of the docs."""
    series = np.random.default_rng(3).standard_normal((3000, 5)) * 0.7 + true
    found = [independent_interval(values, ALPHA) for values in series.tolist()]
    share = sum(i is not None and equivalent(i, 1.0) is verdict for i in found) / len(found)
    assert least <= share <= most


def test_the_naive_interval_would_be_wrong() -> None:
    """Why blocks: independent-sample intervals miss far more often under autocorrelation."""
    found = [independent_interval(values, ALPHA) for values in ar1(0.5, 200, 1000)]
    wrong = sum((i.high < 0) + (i.low > 0) for i in found if i is not None)
    assert wrong / (2 * len(found)) > 0.1


def test_power_of_equivalence() -> None:
    """A true difference of zero, noise well inside the margin: nearly always equivalent."""
    found = [mean_interval(values, ALPHA, RULE) for values in ar1(0.3, 200, 300, seed=2)]
    assert sum(equivalent(i, 0.5) is True for i in found if i is not None) >= 295


def test_independent_interval_is_the_t_interval() -> None:
    values = [0.3, -0.1, 0.25, 0.7, 0.05]
    found = independent_interval(values, ALPHA)
    low, high = stats.t.interval(0.9, 4, np.mean(values), stats.sem(values))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-10)
    assert independent_interval([1.0], ALPHA) is None


def test_without_memory_batch_means_are_the_t_interval_of_block_means() -> None:
    values = [(-1.0) ** i + i % 3 for i in range(100)]  # negative lag-1 correlation: factor 1
    assert lag_one_correlation(values) == 0
    found = mean_interval(values, ALPHA, RULE)
    blocks = np.asarray(values).reshape(4, 25).mean(axis=1)
    low, high = stats.t.interval(0.9, 3, blocks.mean(), stats.sem(blocks))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-10)


def test_trend_is_the_least_squares_line_of_the_block_means() -> None:
    noise = [(-1.0) ** i * 0.3 + (i % 7) * 0.01 for i in range(200)]
    values = [0.01 * i + e for i, e in enumerate(noise)]
    found = trend_interval(values, ALPHA, RULE)
    blocks, centres = np.asarray(values).reshape(8, 25).mean(axis=1), np.arange(8) * 25 + 12
    line = stats.linregress(centres, blocks)
    half = stats.t.ppf(0.95, 6) * line.stderr * 200
    assert found is not None
    assert found.estimate == pytest.approx(line.slope * 200, rel=1e-10)
    assert found.half_width == pytest.approx(half, rel=1e-8)
    assert found.estimate == pytest.approx(2.0, rel=0.01)


def test_lag_one_correlation_is_unbiased_enough() -> None:
    found = [lag_one_correlation(values) for values in ar1(0.8, 200, 400)]
    assert mean(found) == pytest.approx(0.8, abs=0.01)
    assert lag_one_correlation([2.0] * 10) == 0


def test_a_constant_series_has_an_interval_of_width_zero() -> None:
    assert mean_interval([0.0] * 100, ALPHA, RULE) == Interval(0.0, 0.0, 0.0, 100)
    assert trend_interval([0.0] * 100, ALPHA, RULE) == Interval(0.0, 0.0, 0.0, 100)


def test_too_short_series_have_no_interval() -> None:
    assert RULE.steps_needed == 100
    assert mean_interval([0.0] * 99, ALPHA, RULE) is None
    assert trend_interval([0.0] * 99, ALPHA, RULE) is None


def test_block_rule() -> None:
    assert [RULE.count(n) for n in (99, 100, 200, 499, 500, 100_000)] == [3, 4, 8, 19, 20, 20]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.001, 0.001, True),
        (-0.002, 0.002, True),
        (-0.003, 0.001, None),
        (-0.003, 0.003, None),
        (0.0021, 0.003, False),
        (-0.003, -0.0021, False),
        (math.nan, math.nan, None),
    ],
)
def test_equivalence(low: float, high: float, expected: bool | None) -> None:
    assert equivalent(Interval((low + high) / 2, low, high, 9), 0.002) is expected


def test_how_many_would_be_needed() -> None:
    assert observations_needed(Interval(0.0, -0.004, 0.004, 100), 0.002) == 400
    assert observations_needed(Interval(0.003, -0.004, 0.01, 100), 0.002) is None


def test_ratio_interval_is_a_t_interval_of_logs() -> None:
    ours, theirs = [1.0, 1.1, 0.9, 1.05], [1.0, 1.0, 1.0, 1.0]
    found = ratio_interval(ours, theirs, ALPHA)
    logs = np.log(ours)
    low, high = stats.t.interval(0.9, 3, logs.mean(), stats.sem(logs))
    assert found is not None
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (stats.gmean(ours), math.exp(low), math.exp(high)), rel=1e-10
    )
    assert ratio_interval([1.0], [1.0], ALPHA) is None


def test_small_summaries() -> None:
    values = [3.0, 1.0, 2.0, 10.0]
    assert (mean(values), median(values), median(values[:3])) == (4.0, 2.5, 2.0)
    assert standard_deviation(values) == pytest.approx(np.std(values, ddof=1))
    assert root_mean_square(values) == pytest.approx(np.sqrt(np.mean(np.square(values))))
    assert standard_deviation([1.0]) == 0


def test_numbers_too_large_to_add_do_not_crash() -> None:
    huge = [1e308, -1e308, 1e308, 1e308] * 30
    found = mean_interval(huge, ALPHA, RULE)
    assert found is not None
    assert equivalent(found, 0.002) is not True
    assert math.isnan(mean([math.inf, -math.inf]))


def test_bootstrap_agrees_with_the_t_interval_on_independent_values() -> None:
    values = np.random.default_rng(3).standard_normal(300).tolist()
    found = bootstrap_interval(values, mean, ALPHA, block=1, resamples=2000, seed=11)
    expected = independent_interval(values, ALPHA)
    assert expected is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02)
    assert found.estimate == mean(values)


def test_bootstrap_is_repeatable_and_blocks_keep_memory() -> None:
    values = ar1(0.8, 300, 1)[0]
    runs = [
        bootstrap_interval(values, mean, ALPHA, block=b, resamples=400, seed=s)
        for b, s in ((1, 5), (1, 5), (1, 6), (30, 5))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert runs[3].half_width > 1.5 * runs[0].half_width
    with pytest.raises(ValueError, match="block"):
        bootstrap_interval([1.0], mean, ALPHA, block=2, resamples=1, seed=0)
