"""Seed known faults into tiny runs and show which gate catches each: the certifier, certified.

examples:
  certify selftest --quick           one seed, every fault in one model that it fits
  certify selftest --seeds 20        the full table: every fault in every model that it fits
  certify selftest --seeds 4 --first-seed 9 --json > C.json     a part of it, to be merged
  certify selftest --merge A.json B.json C.json
  certify selftest --faults lr-off-by-one,expert-block-lost
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_FAIL, EXIT_PASS, UsageError

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``certify selftest``."""
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds (default: 1)")
    parser.add_argument("--first-seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--quick", action="store_true", help="each fault in one model only")
    parser.add_argument("--faults", metavar="F,..", help="only these")
    parser.add_argument("--out", metavar="DIR", help="keep the runs in this folder")
    parser.add_argument(
        "--merge", metavar="FILE", nargs="+", help="train nothing: documents of --json as one"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 when every fault was caught and every A/A passed, else 1."""
    from certify.selftest.run import selftest
    from certify.selftest.table import text

    if args.merge:
        from certify.selftest.merge import merged, read_document

        body = merged([read_document(Path(name)) for name in args.merge], args.merge)
        _print(body, args.json, text)
        return EXIT_PASS if body["verdict"] == "PASS" else EXIT_FAIL
    if args.seeds < 1:
        raise UsageError(f"{args.seeds} seeds", where="--seeds", expected="1 or more")
    names = args.faults.split(",") if args.faults else None
    out = Path(args.out).absolute() if args.out else None
    if out is not None and out.exists() and any(out.iterdir()):
        raise UsageError("the folder is not empty", where=f"--out {out}", expected="a new folder")
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"  {time.monotonic() - began:6.0f} s  {line}", file=sys.stderr, flush=True)

    seeds = range(args.first_seed, args.first_seed + args.seeds)
    if out is not None:
        body = selftest(out, seeds, args.quick, names, say)
    else:
        with tempfile.TemporaryDirectory(prefix="certify-selftest-") as folder:
            body = selftest(Path(folder), seeds, args.quick, names, say)
    _print(body, args.json, text)
    return EXIT_PASS if body["verdict"] == "PASS" else EXIT_FAIL


def _print(body: dict[str, Any], as_json: bool, text: Any) -> None:
    print(json.dumps(body, ensure_ascii=False) if as_json else text(body))
