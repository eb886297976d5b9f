"""Write the page of a campaign.

  certify report build DIR             to DIR/page/index.html
  certify report build DIR OUT         to OUT/index.html
  certify report build CAMPAIGN OUT    a campaign by its id in the store

The folder holds everything the page needs (figures, curves as CSV, records, digests) and asks
nothing of any network: send it as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import EXIT_PASS, UsageError

if TYPE_CHECKING:
    import argparse

SCHEMA = "certify.report/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``certify report``."""
    parser.add_argument("action", choices=["build"])
    parser.add_argument("campaign", metavar="DIR|CAMPAIGN", help="a campaign's folder, or its id")
    parser.add_argument("out", metavar="OUT", nargs="?", help="folder to write (DIR/page)")
    parser.add_argument("--home", metavar="DIR", help="folder that holds the state of certify")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Write the page and say where it is; returns 0 whatever the campaign's verdict was."""
    from reports.campaign import build
    from reports.history import stored_runs

    folder = _folder(args.campaign, args.home)
    out = Path(args.out) if args.out else folder / "page"
    page = build(folder, out, stored_runs(folder, args.home))
    if args.json:
        print(json.dumps({"schema": SCHEMA, "page": str(page)}, ensure_ascii=False))
    else:
        print(page)
    return EXIT_PASS


def _folder(named: str, home: str | None) -> Path:
    """The folder of a campaign that is named by its folder or by its id."""
    if Path(named).is_dir():
        return Path(named)
    if "/" in named or not named:
        raise UsageError(
            "no such folder",
            where=named,
            expected="the folder of a campaign, or its id",
            hint="certify run says where its campaign lies",
        )
    from reports.history import stored_campaign

    folder = Path(stored_campaign(named, home).folder)
    if not folder.is_dir():
        raise UsageError("the campaign's folder is gone", where=str(folder))
    return folder
