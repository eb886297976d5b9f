"""examples:
  certify lock > stack.lock.json                  the full stack of this host
  certify lock --script run.sh --image name@sha256:...
  certify lock --check stack.lock.json            refuse drift from it

Writes versions, commits, packages, devices and variables of this host as one JSON document, with
the digests of the scripts and of the image that are named. --check compares and exits 1 on drift.
Variables that name a machine (addresses, ranks, paths) are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_FAIL, EXIT_PASS
from certify.lock import Drift, drift, lock_of, read_lock, to_text

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify lock``."""
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare with this lock")
    parser.add_argument("--root", default="/", metavar="DIR", help="inspect this tree instead")
    parser.add_argument("--no-tools", action="store_true", help="do not run npu-smi")
    parser.add_argument(
        "--script", type=Path, action="append", default=[], metavar="FILE",
        help="include the digest of a launch script; may be repeated",
    )  # fmt: skip
    parser.add_argument("--image", metavar="NAME@DIGEST", help="the container image in use")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Prints the lock, or the drift from one. Raises UsageError for unreadable input."""
    from certify.environment.probes import inspect

    locked = read_lock(args.check) if args.check else None
    scripts = [*args.script, *_locked_scripts(locked)]
    stack = inspect(args.root, tools=not args.no_tools and args.root == "/")
    found = lock_of(stack, image=args.image, scripts=dict.fromkeys(scripts))
    if locked is None:
        print(to_text(found), end="")
        return EXIT_PASS
    differences = drift(locked, found)
    if args.json:
        print(json.dumps(_document(differences), ensure_ascii=False))
    else:
        print(_page(differences, args.check))
    return EXIT_FAIL if differences else EXIT_PASS


def _locked_scripts(locked: dict[str, Any] | None) -> list[Path]:
    """Scripts that a lock names and that are still there; a missing one shows up as drift."""
    names = (locked or {}).get("scripts") or {}
    return [Path(name) for name in names if Path(name).is_file()]


def _document(differences: list[Drift]) -> dict[str, object]:
    return {
        "schema": "certify.lock-check/1",
        "verdict": "drift" if differences else "equal",
        "drift": [
            {"place": d.place, "locked": d.locked or None, "found": d.found or None}
            for d in differences
        ],
    }


def _page(differences: list[Drift], path: Path) -> str:
    if not differences:
        return f"equal: nothing has moved since {path}"
    lines = [f"drift: {len(differences)} differences from {path}"]
    lines += [f"  {d.place}: {d.locked or 'absent'} -> {d.found or 'absent'}" for d in differences]
    return "\n".join(lines)
