"""How long `certify check-env` takes, cold, beside what else looks at an environment.

    python benchmarks/check_env.py
    python benchmarks/check_env.py --runs 30 --msprechecker /path/venv/bin/msprechecker

Every command is a fresh process; the commands take turns, so that a busy machine slows all of them
alike. Wall time and CPU time (user and system) are medians, memory is the largest resident set.
The goal: check-env without tools within 60 ms and 30 MB on a quiet core, or within four times
``python -c pass`` of the same run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOAL_MS, GOAL_MB, GOAL_RATIO = 60.0, 30.0, 4.0
# What the installed console script does.
_SCRIPT = "import sys; from certify.cli import main; sys.exit(main(sys.argv[1:]))"


@dataclass
class Timing:
    """Wall and CPU milliseconds of every run, and the largest resident set in MB."""

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    peak_mb: float = 0.0


def once(command: list[str], environ: dict[str, str], timing: Timing) -> None:
    """Run one process to its end and add what it cost."""
    start = time.perf_counter()
    with open(os.devnull, "wb") as nothing:
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing, env=environ, cwd="/")
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    timing.wall_ms.append((time.perf_counter() - start) * 1000)
    timing.cpu_ms.append((usage.ru_utime + usage.ru_stime) * 1000)
    timing.peak_mb = max(timing.peak_mb, usage.ru_maxrss / 1024)


def commands(msprechecker: str | None) -> dict[str, tuple[list[str], int]]:
    """Name -> command and how many rounds apart it runs (slow ones less often)."""
    python = sys.executable
    certify = [python, "-c", _SCRIPT, "check-env"]
    found: dict[str, tuple[list[str], int]] = {
        "python -c pass": ([python, "-c", "pass"], 1),
        "certify check-env --no-tools": ([*certify, "--no-tools"], 1),
        "certify check-env --no-tools --json": ([*certify, "--no-tools", "--json"], 1),
        "certify check-env (with npu-smi)": (certify, 1),
    }
    if importlib.util.find_spec("torch"):
        found["python -m torch.utils.collect_env"] = ([python, "-m", "torch.utils.collect_env"], 10)
    tool = msprechecker or shutil.which("msprechecker")
    if tool:
        found["msprechecker precheck"] = ([tool, "precheck"], 5)
    return found


def environment(cache: str) -> dict[str, str]:
    """The caller's, with compiled modules allowed, as an installation has them."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return environ


def measure(runs: int, msprechecker: str | None) -> dict[str, Timing]:
    """All commands in turn, `runs` rounds, after one unmeasured round."""
    found = commands(msprechecker)
    timings = {name: Timing() for name in found}
    with tempfile.TemporaryDirectory() as cache:
        environ = environment(cache)
        for command, _ in found.values():
            once(command, environ, Timing())
        for number in range(runs):
            for name, (command, apart) in found.items():
                if number % apart == 0:
                    once(command, environ, timings[name])
    return timings


def table(timings: dict[str, Timing]) -> str:
    """Markdown, one row a command."""
    base = statistics.median(timings["python -c pass"].wall_ms)
    lines = [
        "| command | wall, median (ms) | least (ms) | x `python -c pass` | CPU (ms) | peak (MB) |",
        "|---|---|---|---|---|---|",
    ]
    for name, timing in timings.items():
        wall = statistics.median(timing.wall_ms)
        lines.append(
            f"| {name} | {wall:.0f} | {min(timing.wall_ms):.0f} | {wall / base:.1f} "
            f"| {statistics.median(timing.cpu_ms):.0f} | {timing.peak_mb:.0f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table; 1 when check-env misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--msprechecker", help="its command, where it is installed elsewhere")
    arguments = parser.parse_args()
    timings = measure(arguments.runs, arguments.msprechecker)
    print(table(timings))
    ours = timings["certify check-env --no-tools"]
    wall = statistics.median(ours.wall_ms)
    ratio = wall / statistics.median(timings["python -c pass"].wall_ms)
    good = (wall <= GOAL_MS or ratio <= GOAL_RATIO) and ours.peak_mb <= GOAL_MB
    load = os.getloadavg()[0]
    print(
        f"\ncheck-env --no-tools: {wall:.0f} ms, {ratio:.1f} x python -c pass, "
        f"{ours.peak_mb:.0f} MB; goal {GOAL_MS:.0f} ms or {GOAL_RATIO:.0f} x, {GOAL_MB:.0f} MB: "
        f"{'met' if good else 'missed'} (load {load:.1f} on {os.cpu_count()} cores)"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
