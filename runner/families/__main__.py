"""``python -m runner.families SPEC.json``: tries every configuration of a spec.

Under torchrun every rank takes part in every trial; rank 0 writes the results, after each one,
so that an interrupted run keeps what it has.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import timedelta
from importlib import metadata
from pathlib import Path

import torch.distributed as dist

from certify.runspec import FamiliesSpec, read_families_spec
from runner.command import run_file
from runner.families.check import Trial, check

COLLECTIVE_TIMEOUT = timedelta(minutes=5)
PACKAGES = ("torch", "transformers")


def try_all(spec: FamiliesSpec) -> None:
    """Try every configuration in every precision and write the results."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    is_first = int(os.environ.get("RANK", "0")) == 0
    if ranks > 1:
        # One group for all trials: making one again and again races between ranks.
        dist.init_process_group("gloo", timeout=COLLECTIVE_TIMEOUT)
    results: dict[str, dict[str, object]] = {}
    versions = {name: metadata.version(name) for name in PACKAGES}
    for number, (name, config) in enumerate(spec.configs.items(), start=1):
        for dtype in spec.dtypes:
            folder = Path(spec.work_dir) / f"{number}-{dtype}"
            result = check(Trial(config, folder, dtype, spec.steps, spec.seq_length, ranks))
            results.setdefault(name, {})[dtype] = result
            if not is_first:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            said = "ok" if result["ok"] else f"{result['stage']}: {result['reason']}"
            print(f"[{number}/{len(spec.configs)}] {name} {dtype}: {said}", file=sys.stderr)
            body = {"versions": versions, "ranks": ranks, "results": results}
            text = json.dumps(body, indent=1, sort_keys=True, default=str)
            Path(spec.out_file).write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code (`runner.command`)."""
    return run_file("runner.families", arguments, lambda path: try_all(read_families_spec(path)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
