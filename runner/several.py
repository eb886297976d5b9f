"""``python -m runner.several LIST.json``: many short runs one after another in one process.

LIST.json: [{"module": ..., "file": ...}, ...]; module is one of `MODULES`, file what it reads.
Everything is imported once, and all items share one process group; a run builds its own state
from nothing, as in a process of its own. An item that fails does not stop the others. Exit codes
go to LIST.codes.json, in order.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import torch.distributed as dist

from certify.errors import EXIT_INTERNAL, UsageError
from runner.command import run_file
from runner.leaving import leave

if TYPE_CHECKING:
    from pathlib import Path

# module -> the function that takes its arguments and returns an exit code.
MODULES = {
    "runner": "runner.__main__",
    "runner.prepare": "runner.prepare",
    "runner.compare": "runner.compare",
    "runner.masking": "runner.masking",
}


def _join() -> None:
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    shared = os.environ.get("CERTIFY_STORE")
    if ranks == 1:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    elif shared:
        store = dist.FileStore(shared, ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    else:
        dist.init_process_group("gloo")


def _run(path: Path) -> int:
    items = json.loads(path.read_text("utf-8"))
    unknown = [item["module"] for item in items if item["module"] not in MODULES]
    if unknown:
        raise UsageError(
            f"unknown module {unknown[0]!r}", where=str(path), expected=", ".join(MODULES)
        )
    _join()
    codes = []
    for number, item in enumerate(items, start=1):
        if dist.get_rank() == 0:
            print(f"item {number}/{len(items)}: {item['module']} {item['file']}", flush=True)
        code: int = import_module(MODULES[item["module"]]).main([item["file"]])
        codes.append(code)
        if code == EXIT_INTERNAL:
            # Its ranks may have parted: the rest would wait for each other.
            break
    if dist.get_rank() == 0:
        path.with_suffix(".codes.json").write_text(json.dumps(codes), "utf-8")
    return 0


def main(arguments: list[str]) -> int:
    """Do all items of a list; returns 0 whatever they returned (`runner.command`)."""
    return run_file("runner.several", arguments, _run, "LIST.json")


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
