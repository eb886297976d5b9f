"""How often the checks of the loss curve PASS, FAIL or stay INCONCLUSIVE (docs/criteria.md).

python benchmarks/verdict_rates.py [SERIES]      (needs numpy and scipy; a minute)

Series are AR(1) noise about a known true value, in units of the margin. A PASS of a true value on
the margin or beyond is a false pass, a FAIL of one on the margin or inside is a false fail:
nominal 5% each on the margin itself, less everywhere else. Margins and block rule are those of the
criteria.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from scipy import signal

from certify.criteria.load import Limits, load_criteria
from certify.criteria.statistics.intervals import (
    equivalent,
    independent_interval,
    mean_interval,
    trend_interval,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from certify.criteria.statistics.intervals import Interval

TRUE = (0.0, 0.5, 1.0, 1.5)
RHO, STEPS, SEEDS = 0.5, 200, 5
# Spread of r_t, of single steps; and of the mean drift of one seed among seeds.
STEP_NOISE, SEED_NOISE = 0.004, 0.0007
WORDS = {True: "PASS", False: "FAIL", None: "INCONCLUSIVE"}


def noise(count: int, n: int, rho: float, spread: float) -> np.ndarray:
    """(count, n) AR(1) series of standard deviation `spread`."""
    shocks = np.random.default_rng(n + int(100 * rho)).standard_normal((count, n + 100))
    series = signal.lfilter([1.0], [1.0, -rho], shocks, axis=1)[:, 100:]
    return np.asarray(series * spread * np.sqrt(1 - rho * rho))


def rates(
    find: Callable[[list[float]], Interval | None], series: np.ndarray, margin: float
) -> Counter[str]:
    """Verdict -> share in percent."""
    found = Counter(
        WORDS[equivalent(interval, margin)]
        for values in series.tolist()
        if (interval := find(values)) is not None
    )
    return Counter({word: 100 * n / len(series) for word, n in found.items()})


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    limits = Limits(load_criteria(), "loss-curve", "tiny", "pretrain", "fp32", moe=False)
    alpha, blocks = limits.value("alpha"), limits.blocks()
    steps = noise(count, STEPS, RHO, STEP_NOISE)
    halves = noise(count, STEPS // 2, RHO, STEP_NOISE / 4)
    seeds = noise(count, SEEDS, 0.0, SEED_NOISE)
    line = np.linspace(-0.5, 0.5, STEPS // 2)
    checks: tuple[
        tuple[str, str, np.ndarray, Callable[[list[float]], Interval | None], object], ...
    ]
    checks = (
        ("drift", f"{STEPS} steps", steps, lambda v: mean_interval(v, alpha, blocks), 1.0),
        ("trend", f"{STEPS // 2} steps", halves, lambda v: trend_interval(v, alpha, blocks), line),
        ("run-level", f"{SEEDS} seeds", seeds, lambda v: independent_interval(v, alpha), 1.0),
    )
    print("| check | from | true value / margin | PASS | FAIL | INCONCLUSIVE |")
    print("|---|---|---|---|---|---|")
    for name, size, series, find, shape in checks:
        margin = limits.value(name)
        for true in TRUE:
            found = rates(find, series + true * margin * np.asarray(shape), margin)
            cells = " | ".join(f"{found[word]:.1f}%" for word in WORDS.values())
            print(f"| {name} | {size} | {true:g} | {cells} |")


if __name__ == "__main__":
    main()
