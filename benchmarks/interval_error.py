"""How often the intervals of the judge are wrong on AR(1) noise: the table in docs/criteria.md.

python benchmarks/interval_error.py [SERIES]      (needs numpy and scipy; minutes)

Each series has its true value at the edge of the interval's claim, so every miss on one side is a
false pass of a one-sided test at the margin; both sides are counted. Nominal: 5%.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from scipy import signal

from certify.criteria.statistics.intervals import (
    Blocks,
    Interval,
    independent_interval,
    mean_interval,
    trend_interval,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ALPHA, RULE = 0.05, Blocks(smallest=25, most=20, fewest=4)
CORRELATIONS = (0.0, 0.3, 0.5, 0.8)
LENGTHS = (100, 200, 400, 1000)


def miss_rate(
    find: Callable[[list[float]], Interval | None], rho: float, n: int, count: int
) -> float:
    """Share of one-sided misses of zero, the true value, in percent."""
    shocks = np.random.default_rng(1000 * n + int(10 * rho)).standard_normal((count, n + 100))
    series = signal.lfilter([1.0], [1.0, -rho], shocks, axis=1)[:, 100:].tolist()
    found = [interval for values in series if (interval := find(values)) is not None]
    return 100 * sum((i.high < 0) + (i.low > 0) for i in found) / (2 * len(found))


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    methods: dict[str, Callable[[list[float]], Interval | None]] = {
        "drift": lambda values: mean_interval(values, ALPHA, RULE),
        "trend": lambda values: trend_interval(values, ALPHA, RULE),
        "naive": lambda values: independent_interval(values, ALPHA),
    }
    print("| interval | steps | " + " | ".join(f"rho {rho:g}" for rho in CORRELATIONS) + " |")
    print("|---|---|" + "---|" * len(CORRELATIONS))
    for name, find in methods.items():
        for n in LENGTHS if name != "naive" else LENGTHS[1:2]:
            rates = [miss_rate(find, rho, n, count) for rho in CORRELATIONS]
            print(f"| {name} | {n} | " + " | ".join(f"{rate:.1f}%" for rate in rates) + " |")


if __name__ == "__main__":
    main()
