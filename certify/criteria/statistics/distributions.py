"""Normal, Student-t, beta and binomial distributions: tails and quantiles.

Everything but the normal rests on one function, the regularised incomplete beta function. Its
leading factor is computed from Stirling's remainder and the binomial deviance instead of from
differences of log-gammas, which lose digits as the parameters grow (C. Loader, "Fast and accurate
computation of binomial probabilities", 2000); the rest is its continued fraction (NIST DLMF
8.17.22). Agreement with scipy to 1e-10, relative, is tested.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_TINY = 1e-300  # stands for zero where a division follows
_MAX_ITERATIONS = 200_000


def normal_quantile(p: float) -> float:
    """z with P(Z <= z) = p, for 0 < p < 1."""
    return NormalDist().inv_cdf(p)


def _stirling_remainder(n: float) -> float:
    """log(n!) minus Stirling's formula, for n > 0 (not only integers)."""
    if n <= 15:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _LOG_SQRT_2PI
    # Asymptotic series; the first term left out is below 3e-16 from here on.
    inverse_square = 1 / (n * n)
    series = 0.0
    for coefficient in (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = series * inverse_square + coefficient
    return series / n


def _deviance(x: float, mean: float) -> float:
    """x log(x / mean) + mean - x, without cancellation where x is close to mean."""
    difference = x - mean
    if abs(difference) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - difference
    ratio = difference / (x + mean)
    total, term, odd = difference * ratio, 2 * x * ratio, 1
    while True:
        term *= ratio * ratio
        odd += 2
        before, total = total, total + term / odd
        if total == before:
            return total


def _beta_factor(a: float, b: float, x: float, y: float) -> float:
    """x^a y^b / B(a, b), where y = 1 - x."""
    n = a + b
    exponent = (
        _stirling_remainder(n)
        - _stirling_remainder(a)
        - _stirling_remainder(b)
        - _deviance(a, n * x)
        - _deviance(b, n * y)
    )
    return math.exp(exponent) * math.sqrt(a * b / (2 * math.pi * n))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x(a, b), by Lentz's method; for x below the mean."""
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if d else _TINY)
    value = d
    for m in range(1, _MAX_ITERATIONS):
        for coefficient in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + coefficient * d
            c = 1 + coefficient / c
            d = 1 / (d if d else _TINY)
            c = c if c else _TINY
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            return value
    raise ArithmeticError(f"incomplete beta function did not converge at a={a}, b={b}, x={x}")


def beta_tails(a: float, b: float, x: float, y: float) -> tuple[float, float]:
    """(P(X <= x), P(X > x)) of the beta distribution; y is 1 - x, given so that neither tail
    loses digits."""
    if x <= 0:
        return 0.0, 1.0
    if y <= 0:
        return 1.0, 0.0
    factor = _beta_factor(a, b, x, y)
    if x <= (a + 1) / (a + b + 2):
        lower = factor * _beta_fraction(a, b, x) / a
        return lower, 1 - lower
    upper = factor * _beta_fraction(b, a, y) / b
    return 1 - upper, upper


def _solve(
    excess: Callable[[float], float], slope: Callable[[float], float], low: float, high: float
) -> float:
    """The zero of an increasing function in [low, high]: Newton steps, kept inside a bracket."""
    x = math.sqrt(low * high) if high > 4 * low else (low + high) / 2
    for _ in range(400):
        value = excess(x)
        if value == 0:
            return x
        low, high = (x, high) if value < 0 else (low, x)
        rate = slope(x)
        step = x - value / rate if rate > 0 else low
        if not low < step < high:
            # Halve on the scale on which the bracket is wide.
            step = math.sqrt(low * high) if high > 4 * low else (low + high) / 2
        if abs(step - x) <= 1e-16 * abs(x):
            return step
        x = step
    return x


def beta_quantile(p: float, a: float, b: float) -> float:
    """x with P(X <= x) = p for the beta distribution with parameters a, b > 0."""
    if p <= 0:
        return 0.0
    if p >= 1:
        return 1.0
    if p > 0.5 and beta_tails(a, b, 0.5, 0.5)[0] < p:
        # Solve for the small distance to one, not for a number that rounds to it.
        return 1 - _beta_root(1 - p, b, a)
    return _beta_root(p, a, b)


def _beta_root(p: float, a: float, b: float) -> float:
    def excess(x: float) -> float:
        lower, upper = beta_tails(a, b, x, 1 - x)
        return lower - p if p <= 0.5 else (1 - p) - upper

    def slope(x: float) -> float:
        return _beta_factor(a, b, x, 1 - x) / (x * (1 - x))

    return _solve(excess, slope, _TINY, 1 - 2**-53)


def student_t_tails(t: float, df: float) -> tuple[float, float]:
    """(P(T <= t), P(T > t)) with df degrees of freedom."""
    square = t * t
    x, y = df / (df + square), square / (df + square)
    outside, inside = beta_tails(df / 2, 0.5, x, y)
    small, large = outside / 2, 0.5 + inside / 2
    return (large, small) if t > 0 else (small, large)


def student_t_cdf(t: float, df: float) -> float:
    """P(T <= t) with df degrees of freedom."""
    return student_t_tails(t, df)[0]


def student_t_quantile(p: float, df: float) -> float:
    """t with P(T <= t) = p, for 0 < p < 1 and df > 0 degrees of freedom."""
    if not 0 < p < 1:
        raise ValueError(f"a quantile needs 0 < p < 1, found {p}")
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -_student_t_root(p, df)
    return _student_t_root(1 - p, df)


def _student_t_root(tail: float, df: float) -> float:
    """t > 0 with P(T > t) = tail < 1/2."""
    high = 1.0
    while student_t_tails(high, df)[1] > tail:
        high *= 4

    def slope(t: float) -> float:
        square = t * t
        return _beta_factor(df / 2, 0.5, df / (df + square), square / (df + square)) / t

    return _solve(lambda t: tail - student_t_tails(t, df)[1], slope, min(1e-12, tail), high)


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(K <= k) for n trials of probability p."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return beta_tails(n - k, k + 1, 1 - p, p)[0]


def binomial_quantile(q: float, n: int, p: float) -> int:
    """The smallest k with P(K <= k) >= q."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if binomial_cdf(middle, n, p) >= q:
            high = middle
        else:
            low = middle + 1
    return low


def binomial_bounds(k: int, n: int, alpha: float) -> tuple[float, float]:
    """Exact (Clopper-Pearson) one-sided bounds of a proportion, each of error alpha.

    Together they are an interval of confidence 1 - 2 alpha.
    """
    if not 0 <= k <= n or n < 1:
        raise ValueError(f"{k} of {n} is not a proportion")
    low = 0.0 if k == 0 else beta_quantile(alpha, k, n - k + 1)
    high = 1.0 if k == n else beta_quantile(1 - alpha, k + 1, n - k)
    return low, high
