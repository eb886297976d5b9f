"""Judge the records of a campaign again, by the criteria of this version.

  certify judge DIR           the table of gates, the overall verdict and what it entitles to say
  certify judge DIR --json    the same as one JSON document (certify.judge/1)

DIR is a campaign folder: plan.json and runs/. Nothing is written; neither torch nor a network is
needed. Exit code 0 for PASS, 1 for FAIL, 3 for INCONCLUSIVE.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from certify.criteria.judge import FAIL, INCONCLUSIVE, PASS, judge_campaign, verdict_json
from certify.criteria.outcome import as_json
from certify.criteria.table import render
from certify.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS

if TYPE_CHECKING:
    import argparse

VERDICT_EXIT = {PASS: EXIT_PASS, FAIL: EXIT_FAIL, INCONCLUSIVE: EXIT_CANNOT_JUDGE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify judge``."""
    parser.add_argument("campaign", metavar="DIR", type=Path, help="folder of a campaign")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Judge and print; the exit code says the verdict."""
    verdict = judge_campaign(args.campaign)
    print(verdict_json(verdict), end="") if args.json else print(render(as_json(verdict)))
    return VERDICT_EXIT[verdict.verdict]
