"""``python -m reports campaign DIR OUT [--home DIR]``: what ``certify run`` starts for its page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from certify.errors import EXIT_PASS, CertifyError
from reports.campaign import build
from reports.history import stored_runs


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code; errors that have an explanation go to stderr."""
    parser = argparse.ArgumentParser(prog="python -m reports", description=__doc__)
    parser.add_argument("page", choices=["campaign"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--home", metavar="DIR")
    args = parser.parse_args(argv)
    try:
        print(build(args.folder, args.out, stored_runs(args.folder, args.home)))
    except CertifyError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return EXIT_PASS


if __name__ == "__main__":
    sys.exit(main())
