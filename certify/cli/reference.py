"""examples:
  certify reference list                           what was recorded, here and by you
  certify reference verify qwen3-32b-4k-fsdp2      train a recorded reference again and compare
  certify reference record CAMPAIGN                keep the reference of a campaign
  certify reference import train.log --recipe qwen3-8b
  certify reference setup llamafactory             its own environment, from a lock (2.2 GB)
  certify reference train llamafactory --model DIR --data FILE --out DIR --set template=qwen3
  certify reference compare RUN DIR/output         a run of ours against it, step by step

Recorded trajectories of references. `verify` checks every file by its digest, trains the reference
again (minutes) and compares step by step, by the rules of the loss curve and of the first gradient
norms, and counts the steps that are equal bit for bit. `import` keeps what a Megatron-LM or
MindSpeed-LLM run of yours logged; its weights and batches are not known, so that nothing is judged
by it. `compare` answers FAIL beyond 1e-5 of loss or gradient norm in any step, 3 below 60 steps."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.cli import reference_live
from certify.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, InfrastructureError, UsageError
from certify.home import home_folder

if TYPE_CHECKING:
    from certify.reference.recorded import Recorded
    from certify.reference.verify import Compared

SCHEMA = "certify.reference/1"
_MOST_BYTES = 1 << 30  # of a log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify reference`` and its subcommands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the recorded trajectories", allow_abbrev=False)
    verify = actions.add_parser("verify", help="train one again and compare", allow_abbrev=False)
    verify.add_argument("name", metavar="NAME|DIR")
    verify.add_argument("--no-run", action="store_true", help="check the files only")
    record = actions.add_parser("record", help="keep a campaign's reference", allow_abbrev=False)
    record.add_argument("campaign", metavar="CAMPAIGN", help="folder of a campaign")
    imports = actions.add_parser("import", help="keep a log's trajectory", allow_abbrev=False)
    imports.add_argument("log", metavar="LOG", help="what a training run printed")
    imports.add_argument("--recipe", required=True, metavar="R", help="the recipe it trained")
    for action in (record, imports):
        action.add_argument("--out", metavar="DIR", help="default: a folder under the home folder")
    live = reference_live.add_actions(actions)
    for action in (listing, verify, record, imports, *live):
        action.add_argument("--home", metavar="DIR", help="state folder (default: $CERTIFY_HOME)")
        action.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 PASS or done, 1 FAIL, 2 usage, 3 nothing that could be trained again, 4."""
    actions = {"list": _list, "verify": _verify, "record": _record, "import": _import}
    live = {
        "setup": reference_live.setup,
        "train": reference_live.train,
        "compare": reference_live.compare,
    }
    if args.action in actions:
        return actions[args.action](args)
    code, document, text = live[args.action](args)
    _print(args, document, text)
    return code


def _print(args: argparse.Namespace, document: dict[str, Any], text: str) -> None:
    if args.json:
        print(json.dumps({"schema": SCHEMA, "action": args.action, **document}, ensure_ascii=False))
    else:
        print(text)


def _facts(found: Recorded) -> dict[str, Any]:
    keys = ("name", "kind", "recipe", "backend", "reference", "scale", "steps")
    return {**{key: getattr(found, key) for key in keys}, "folder": str(found.folder)}


def _list(args: argparse.Namespace) -> int:
    from certify.reference import recorded

    found = [recorded.read(folder) for folder in recorded.folders(home_folder(args.home))]
    lines = [
        f"{one.name:<32} {one.kind:<9} {one.reference:<12} {one.steps:>5} steps  {one.recipe}"
        for one in found
    ]
    _print(args, {"recorded": [_facts(one) for one in found]}, "\n".join(lines) or "none")
    return EXIT_PASS


# ---------------------------------------------------------------------------------------------
# verify


def _verify(args: argparse.Namespace) -> int:
    from certify.reference import recorded
    from certify.reference.verify import compare

    known = recorded.find(args.name, home_folder(args.home))
    facts = _facts(known)
    if known.kind != "run" or args.no_run:
        reason = "every file has the digest of its manifest"
        if known.kind != "run":
            reason += "; its weights and batches are not known, so that it cannot be trained again"
        _print(
            args, {**facts, "verdict": "INCONCLUSIVE", "reason": reason}, f"{known.name}: {reason}"
        )
        return EXIT_PASS if args.no_run else EXIT_CANNOT_JUDGE
    with tempfile.TemporaryDirectory(prefix="certify-reference-") as home:
        plan, file = _train_again(known, Path(home), args.json)
        compared = compare(known, plan, file)
    document = {**facts, **_compared(compared)}
    _print(args, document, _text(known, compared))
    return reference_live.EXIT[compared.finding.verdict]


def _train_again(known: Recorded, home: Path, quiet: bool) -> tuple[dict[str, Any], Any]:
    """(plan, records) of the reference of the same recipe, prepared and trained now."""
    from certify.campaign.files import read_json
    from certify.campaign.progress import Progress
    from certify.campaign.resolve import resolve_request
    from certify.campaign.session import Session
    from certify.cli import run as run_command
    from certify.records import rank_file, read_file

    parser = argparse.ArgumentParser()
    run_command.add_arguments(parser)
    words = [known.recipe, "--backend", known.backend, "--scale", known.scale]
    words += ["--phases", "reference"]
    request, notes = resolve_request(parser.parse_args(words), ["run", *words])
    progress = Progress(quiet=quiet)
    for note in notes:
        progress.say(f"note: {note}")
    session = Session(request, home, home / "campaign", fresh=False, progress=progress)
    session.run()
    layout = session.layout
    if layout is None:
        raise InfrastructureError("the campaign has no folder", where=str(home))
    plan = read_json(layout.plan, "the plan")
    return plan, read_file(rank_file(layout.run(plan["runs"]["reference"]), 0))


def _compared(compared: Compared) -> dict[str, Any]:
    from certify.criteria.outcome import check_json

    finding = compared.finding
    return {
        "verdict": finding.verdict,
        "reason": finding.summary,
        "equal_steps": compared.equal_steps,
        "same_environment": compared.same_environment,
        "checks": [check_json(check) for check in finding.checks],
    }


def _text(known: Recorded, compared: Compared) -> str:
    lines = [f"{known.name}: {known.reference}, {compared.steps} steps of {known.recipe}"]
    lines += [f"  {c.outcome:<9} {c.name:<14} {c.detail}" for c in compared.finding.checks]
    return "\n".join([*lines, f"verdict: {compared.finding.verdict}: {compared.finding.summary}"])


# ---------------------------------------------------------------------------------------------
# record, import


def _out(args: argparse.Namespace, name: str) -> Path:
    return Path(args.out).absolute() if args.out else home_folder(args.home) / "recorded" / name


def _record(args: argparse.Namespace) -> int:
    from certify.campaign.state import read_state
    from certify.reference.record import record

    campaign = Path(args.campaign)
    if not (campaign / "campaign.json").is_file():
        raise UsageError("no campaign", where=str(campaign), expected="a folder of certify run")
    found = record(campaign, _out(args, read_state(campaign / "campaign.json").recipe_id))
    _print(args, _facts(found), f"{found.steps} steps of {found.reference} in {found.folder}")
    return EXIT_PASS


def _import(args: argparse.Namespace) -> int:
    import hashlib

    from certify.recipes.load import load_recipe
    from certify.recipes.names import resolve_name
    from certify.reference import foreign, recorded

    path = Path(args.log)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError("the log is too large", where=str(path), expected="at most 1 GB")
        body = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the log: {error.strerror}", where=str(path)) from None
    recipe = load_recipe(resolve_name(args.recipe, None).row.id)
    lines = body.decode("utf-8", errors="replace").splitlines()
    found = foreign.read_log(lines, str(path))
    notes = foreign.differences(found, recipe.raw)
    digest = hashlib.sha256(body).hexdigest()
    source = {
        "log": path.name,
        "sha256": digest,
        "differences_from_recipe": notes,
        "repeated_steps": list(found.repeated),
        "planned_steps": found.planned,
        "inputs": "weights, data order and masks are not in a log: a comparison cannot be judged",
    }
    facts = {
        "kind": "imported",
        "recipe": recipe.id,
        "backend": recipe.backend,
        "reference": "log",
        "scale": "as logged",
        "steps": len(found.steps),
        "command": f"certify reference import {path.name} --recipe {recipe.id}",
    }
    files = {
        recorded.ENVIRONMENT: json.dumps(source, indent=1, ensure_ascii=False) + "\n",
        recorded.STEPS: found.text(),
    }
    kept = recorded.write(_out(args, f"{recipe.id}-{digest[:8]}"), facts, files)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    text = f"{kept.steps} steps in {kept.folder}"
    _print(args, {**_facts(kept), "differences_from_recipe": notes}, text)
    return EXIT_PASS
