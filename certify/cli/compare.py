"""Compare two loss files of any origin, and say what they can carry.

examples:
  certify compare mine.log theirs.log                 logs of Megatron or MindSpeed
  certify compare OUT/trainer_state.json run/         a trainer's state, and a run of a campaign
  certify compare new.json 'baselines.json#NAME'      one of several curves in a JSON file

Never says PASS: two loss files do not show that both sides had the same weights and batches. Exit
code 1 for a candidate whose loss breaks down, else 3.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from certify.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify compare``."""
    parser.add_argument("candidate", metavar="A", help="file, FILE#KEY or run folder")
    parser.add_argument("reference", metavar="B", help="what it is compared with")
    parser.add_argument("--stage", choices=("pretrain", "sft"), default="pretrain")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Read both, compare, print."""
    from certify.compare.formats import read_curve
    from certify.compare.verdict import compare, text

    body = compare(read_curve(args.candidate), read_curve(args.reference), args.stage)
    print(json.dumps(body, ensure_ascii=False) if args.json else text(body))
    return EXIT_FAIL if body["verdict"] == "FAIL" else EXIT_CANNOT_JUDGE
