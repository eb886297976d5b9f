"""``python -m runner SPEC.json``: train one run, on one rank or as a worker of torchrun."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from certify.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE, CertifyError, UsageError
from certify.runspec import read_spec
from runner import watchdog
from runner.backends import BACKENDS
from runner.complaint import complain
from runner.leaving import leave


def main(arguments: list[str]) -> int:
    """Run the spec; returns the exit code. Errors with a name go to stderr."""
    if len(arguments) != 1:
        print("usage: python -m runner SPEC.json", file=sys.stderr)
        return EXIT_USAGE
    watchdog.start()
    try:
        spec = read_spec(Path(arguments[0]))
        if spec.backend not in BACKENDS:
            raise UsageError(
                f"unknown backend {spec.backend!r}",
                where=f"{arguments[0]}: backend",
                expected=", ".join(BACKENDS),
            )
        code: int = importlib.import_module(BACKENDS[spec.backend]).run(spec)
    except CertifyError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception:
        traceback.print_exc()
        return EXIT_INTERNAL
    return code


if __name__ == "__main__":
    # Threads of a process group whose peers have failed would keep a normal exit waiting.
    leave(main(sys.argv[1:]))
