"""Quantiles and tails of the standard library against scipy."""

from __future__ import annotations

import itertools
import math

import pytest
from scipy import stats

from certify.criteria.statistics.distributions import (
    beta_quantile,
    beta_tails,
    binomial_bounds,
    binomial_cdf,
    binomial_quantile,
    normal_quantile,
    student_t_cdf,
    student_t_quantile,
    student_t_tails,
)

PROBABILITIES = (1e-9, 1e-4, 0.01, 0.05, 0.3, 0.5, 0.6, 0.95, 0.975, 0.9999)
DEGREES = (1, 2, 2.5, 3, 7, 19, 50, 999, 1e5)
SHAPES = (0.5, 1, 2.5, 10, 300, 2e4, 1e6)
EXACT = 1e-10


def close(found: float, expected: float) -> bool:
    return math.isclose(found, expected, rel_tol=EXACT, abs_tol=1e-300)


@pytest.mark.parametrize("df", DEGREES)
def test_student_t(df: float) -> None:
    for p in PROBABILITIES:
        # The median is exactly zero here and 1e-17 in scipy.
        expected = 0.0 if p == 0.5 else stats.t.ppf(p, df)
        assert close(student_t_quantile(p, df), expected), p
    for t in (-30.0, -3.0, -0.5, -1e-5, 0.0, 1e-3, 1.0, 4.0, 50.0):
        lower, upper = student_t_tails(t, df)
        assert close(lower, stats.t.cdf(t, df)), t
        assert close(upper, stats.t.sf(t, df)), t
        assert student_t_cdf(t, df) == lower


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SHAPES, repeat=2)))
def test_beta(a: float, b: float) -> None:
    for p in PROBABILITIES:
        x = beta_quantile(p, a, b)
        assert close(x, stats.beta.ppf(p, a, b)), p
        # The quantile is a number with 16 digits: near one its own rounding moves the tail.
        assert beta_tails(a, b, x, 1 - x)[0] == pytest.approx(stats.beta.cdf(x, a, b), rel=1e-9)


@pytest.mark.parametrize("n", [1, 7, 200, 20480, 10**6])
def test_binomial(n: int) -> None:
    for p in (0.001, 0.2, 0.5, 0.9999):
        for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
            expected = stats.binom.cdf(k, n, p)
            if expected > 1e-290:
                assert binomial_cdf(k, n, p) == pytest.approx(expected, rel=1e-9), (k, p)
        for q in (0.05, 0.51, 0.95):  # 0.5 is a tie for odd n
            assert binomial_quantile(q, n, p) == stats.binom.ppf(q, n, p)


@pytest.mark.parametrize(("k", "n"), [(0, 29), (1, 20), (20, 20), (2, 20480), (20478, 20480)])
def test_exact_bounds_are_clopper_pearson(k: int, n: int) -> None:
    expected = stats.binomtest(k, n).proportion_ci(0.9, "exact")
    low, high = binomial_bounds(k, n, 0.05)
    assert close(low, expected.low)
    assert close(high, expected.high)


def test_29_of_29_injections_show_a_failure_rate_below_ten_percent() -> None:
    assert binomial_bounds(0, 29, 0.05)[1] < 0.1 < binomial_bounds(0, 28, 0.05)[1]


def test_normal() -> None:
    for p in PROBABILITIES:
        assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=EXACT, abs=1e-15)


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="quantile"):
        student_t_quantile(1.0, 3)
    with pytest.raises(ValueError, match="proportion"):
        binomial_bounds(3, 2, 0.05)
    assert (beta_quantile(0, 2, 3), beta_quantile(1, 2, 3)) == (0, 1)
