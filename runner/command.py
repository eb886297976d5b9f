"""The command line of a module of the runner: one file that says what to do."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE, CertifyError
from runner import watchdog
from runner.complaint import complain

if TYPE_CHECKING:
    from collections.abc import Callable


def run_file(
    module: str, arguments: list[str], work: Callable[[Path], int | None], form: str = "SPEC.json"
) -> int:
    """Do what one file says; returns the exit code of `work`, 0 for None.

    module: as after ``python -m``; form: what the file is called in the usage line. Errors with a
    name go to stderr with their exit code; anything else is a defect of ours, with its traceback.
    """
    if len(arguments) != 1:
        print(f"usage: python -m {module} {form}", file=sys.stderr)
        return EXIT_USAGE
    watchdog.start()
    try:
        return work(Path(arguments[0])) or 0
    except CertifyError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception:
        traceback.print_exc()
        return EXIT_INTERNAL
