"""Times of the matrix and the resolver, one table on stdout.

usage: python benchmarks/resolver.py [--repeat N]

Each line is the median (and the least) CPU time of N calls in this process. "first call" includes
the parsing of all specifications and the indexes, which later calls share.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING, Any

from certify.resolver import Context, pair_results, smallest_change
from certify.versions import specs
from matrices import load as matrices

if TYPE_CHECKING:
    from collections.abc import Callable

TARGETS_MS = {"load, compiled": 10.0, "resolve": 20.0}
CONTEXT = Context(product="A2", arch="aarch64")
STACKS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "wheel of another CANN": (
        {"torch": "2.7.1", "torch_npu": "2.7.1", "cann": "9.0.0", "driver": "25.5.1"},
        {},
    ),
    "CANN has to move": (
        {"torch": "2.3.1", "torch_npu": "2.2.0", "cann": "7.0.0.beta1", "transformers": "4.41.2"},
        {},
    ),
    "full stack, upgrade": (
        {
            "torch": "2.7.1", "torch_npu": "2.7.1", "cann": "8.3.RC1", "driver": "25.0.rc1.1",
            "triton_ascend": "3.2.0rc4", "python": "3.10.14", "mindspeed_llm": "2.2.0",
            "mindspeed_core": "2.2.0_core_r0.12.1", "megatron": "core_v0.12.1",
            "transformers": "4.57.1", "numpy": "1.26.4",
        },
        {"cann": "9.1.0"},
    ),
}  # fmt: skip


def _times(call: Callable[[], object], repeat: int, before: Callable[[], Any]) -> list[float]:
    times = []
    for _ in range(repeat):
        before()
        gc.collect()
        start = time.process_time()
        call()
        times.append((time.process_time() - start) * 1e3)
    return times


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    matrix = matrices.load()
    state: dict[str, Any] = {"matrix": matrix}

    def fresh() -> None:
        state["matrix"].prepared = None

    def cold() -> None:
        fresh()
        specs._CACHE.clear()

    rows = [
        ("load, compiled", _times(matrices.load, repeat, lambda: None)),
        (
            "load, from TSV",
            _times(lambda: matrices.load(matrices.FOLDER), repeat, lambda: None),
        ),
    ]
    for name, (have, target) in STACKS.items():

        def both(have: dict[str, str] = have, target: dict[str, str] = target) -> None:
            pair_results(matrix, have, CONTEXT)
            smallest_change(matrix, have, CONTEXT, target=target)

        rows.append((f"resolve, first call: {name}", _times(both, repeat, cold)))
        both()
        rows.append((f"resolve: {name}", _times(both, repeat, lambda: None)))
    print(f"{len(matrix.history)} claims, {len(matrix.claims)} in force, {repeat} calls a line")
    print(f"{'':<48} {'median ms':>10} {'least ms':>10} {'target':>8}")
    for name, times in rows:
        target_ms = next((ms for key, ms in TARGETS_MS.items() if name.startswith(key)), None)
        shown = f"{target_ms:.0f}" if target_ms else ""
        print(f"{name:<48} {statistics.median(times):>10.2f} {min(times):>10.2f} {shown:>8}")


if __name__ == "__main__":
    main()
