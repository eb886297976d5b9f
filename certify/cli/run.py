"""Certify a recipe: train it, train its reference on the same weights and batches, judge both.

examples:
  certify run qwen3-235b --backend fsdp2               on any machine, at scale tiny
  certify run qwen3-235b --backend fsdp2 --dry-run     what would run, how long, how much disk
  certify run qwen3-235b --backend fsdp2 --inject lr-off-by-one     see a FAIL
  certify run CONFIG.yaml training.lr=2e-5             MindSpeed-LLM's FSDP2 configuration, as it is
  certify run qwen3-235b --backend fsdp2 --phases upgrade --from-env OLD --to-env NEW
  certify run --list-phases
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_INTERRUPTED, EXIT_PASS, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import FrameType

    from certify.campaign.progress import Progress
    from certify.campaign.request import Request
    from certify.campaign.session import Session

# An override as upstream's own command line writes it.
_OVERRIDING = re.compile(r"--[A-Za-z_]+\.[A-Za-z_0-9]+(=.*)?", re.DOTALL)
VERDICT_EXIT = {"PASS": EXIT_PASS, "FAIL": EXIT_FAIL, "INCONCLUSIVE": EXIT_CANNOT_JUDGE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``certify run``."""
    parser.add_argument("recipe", nargs="?", help="recipe id, model folder or FSDP2 YAML")
    parser.add_argument("overrides", nargs="*", help="section.key=value, over those of the YAML")
    parser.add_argument("--backend", choices=("fsdp2", "mcore"), help="which row of the model")
    parser.add_argument("--stage", choices=("pretrain",), default="pretrain")
    parser.add_argument("--scale", default="auto", help="auto or tiny (default: auto)")
    parser.add_argument("--data", metavar="PATH", help=".txt, .jsonl, .json, .parquet or a folder")
    parser.add_argument("--tokenizer", metavar="PATH", help="a Hugging Face tokenizer folder")
    parser.add_argument("--phases", metavar="P,..", help="only these and what they need")
    parser.add_argument("--list-phases", action="store_true", help="list the phases and stop")
    parser.add_argument("--inject", metavar="FAULT", help="train with a seeded fault")
    parser.add_argument(
        "--injections",
        type=int,
        metavar="N",
        help="of the phase worker-loss (default: the scale's)",
    )
    for option, what in (("--from-env", "come from"), ("--to-env", "go to")):
        text = f"of the phase upgrade: the stack to {what}, a virtual environment or set_env.sh"
        parser.add_argument(option, metavar="ENV", help=text)
    parser.add_argument("--out", metavar="DIR", help="folder of the campaign")
    parser.add_argument("--fresh", action="store_true", help="never continue an interrupted one")
    parser.add_argument("--dry-run", action="store_true", help="say what would run, write nothing")
    parser.add_argument("--home", metavar="DIR", help="state folder (default: $CERTIFY_HOME)")
    parser.add_argument("--quiet", "-q", action="store_true", help="only the verdict")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def words_of(words: Sequence[str]) -> list[str]:
    """The words with upstream's form of an override, ``--section.key value``, written as ours.

    A key without a value is a switch: True. A list takes all words up to the next option.
    """
    rest, found = list(words), []
    while rest:
        word = rest.pop(0)
        if not _OVERRIDING.fullmatch(word):
            found.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        values = [value] if equals else []
        while not equals and rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
        found.append(f"{name}={','.join(values) if values else True}")
    return found


def _terminate(number: int, frame: FrameType | None) -> None:
    # A scheduler's SIGTERM, or a lost terminal, ends a campaign exactly as Ctrl-C does.
    raise KeyboardInterrupt


def _list_phases(as_json: bool) -> int:
    from certify.campaign.phases import PHASES

    if as_json:
        phases = [
            {"name": p.name, "needs": list(p.needs), "summary": p.summary, "processes": p.fresh}
            for p in PHASES.values()
        ]
        print(json.dumps({"schema": "certify.run/1", "phases": phases}))
        return EXIT_PASS
    for p in PHASES.values():
        print(f"{p.name:<16} {p.summary} ({p.fresh})")
    return EXIT_PASS


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 usage, 4 infrastructure, 130 interrupted."""
    if args.list_phases:
        return _list_phases(args.json)
    if not args.recipe:
        raise UsageError(
            "no recipe named", where="certify run", hint="certify recipes list --backend fsdp2"
        )
    from certify.campaign.announce import describe, describe_text, opening_lines
    from certify.campaign.progress import Progress
    from certify.campaign.resolve import resolve_request
    from certify.home import home_folder

    request, notes = resolve_request(args, args.words)
    home = home_folder(args.home)
    if args.dry_run:
        if args.json:
            print(json.dumps(describe(request, home), ensure_ascii=False))
        else:
            print(describe_text(request, home, notes))
        return EXIT_PASS
    progress = Progress(quiet=args.quiet)
    for line in opening_lines(request, home, notes):
        progress.say(line)
    return _drive(args, request, home, progress)


def _drive(args: argparse.Namespace, request: Request, home: Path, progress: Progress) -> int:
    from certify.campaign.session import Session

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    out = Path(args.out).absolute() if args.out else None
    session = Session(request, home, out, args.fresh, progress)
    began = time.monotonic()
    try:
        document = session.run()
    except KeyboardInterrupt:
        return _interrupted(session, args.json)
    assert session.layout is not None
    if args.json:
        body = document or {"verdict": None, "status": "completed"}
        where = {"schema": "certify.run/1", "folder": str(session.layout.root)}
        print(json.dumps({**body, **where}, ensure_ascii=False))
    else:
        from certify.campaign.announce import closing_text
        from certify.campaign.reference_side import PLAIN_CLAIM, one_class
        from certify.campaign.state import read_state
        from certify.criteria.table import render

        if document is not None:
            print(render(document))
            if one_class(request.backend, request.reference):
                print(f"of this claim: {PLAIN_CLAIM}")
        own = time.process_time()
        state = read_state(session.layout.state)
        print(closing_text(state, session.layout, time.monotonic() - began, own))
    # Without the judge nothing was judged, and nothing failed.
    return VERDICT_EXIT[document["verdict"]] if document is not None else EXIT_PASS


def _interrupted(session: Session, as_json: bool) -> int:
    folder = str(session.layout.root) if session.layout is not None else None
    command = shlex.join(word for word in session.request.command if word != "--fresh")
    print(f"\ninterrupted; the same command continues it: {command}", file=sys.stderr)
    if as_json:
        body = {"schema": "certify.run/1", "verdict": None, "status": "interrupted"}
        print(json.dumps({**body, "folder": folder}))
    return EXIT_INTERRUPTED
