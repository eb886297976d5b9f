"""``python -m runner SPEC.json``: train one run, on one rank or as a worker of torchrun."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from certify.errors import UsageError
from certify.runspec import read_spec
from runner.backends import BACKENDS
from runner.command import run_file
from runner.leaving import leave

if TYPE_CHECKING:
    from pathlib import Path


def _run(path: Path) -> int:
    spec = read_spec(path)
    if spec.backend not in BACKENDS:
        raise UsageError(
            f"unknown backend {spec.backend!r}",
            where=f"{path}: backend",
            expected=", ".join(BACKENDS),
        )
    code: int = importlib.import_module(BACKENDS[spec.backend]).run(spec)
    return code


def main(arguments: list[str]) -> int:
    """Run the spec; returns the exit code (`runner.command`)."""
    return run_file("runner", arguments, _run)


if __name__ == "__main__":
    # Threads of a process group whose peers have failed would keep a normal exit waiting.
    leave(main(sys.argv[1:]))
