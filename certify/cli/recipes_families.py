"""``certify recipes families``: which rows' models run at scale tiny, and the table of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.cli.recipes import SCHEMA
from certify.errors import EXIT_PASS, InfrastructureError, UsageError
from certify.runspec import FamiliesSpec, write_families_spec

if TYPE_CHECKING:
    import argparse

    from certify.recipes.family_table import Table

_ROOT = Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify recipes families``."""
    parser.add_argument("results", nargs="*", metavar="RESULT", help="with --write: result files")
    parser.add_argument("--try", dest="out", metavar="RESULT", help="run them, results to a file")
    parser.add_argument(
        "--python", metavar="EXE", default=sys.executable, help="whose torch and transformers"
    )
    parser.add_argument("--only", metavar="TYPE,..", help="with --try: these model types")
    parser.add_argument(
        "--one-per-type", action="store_true", help="with --try: one trial for each model type"
    )
    parser.add_argument("--write", metavar="PAGE", help="write the page of result files")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0; a family that fails is a result. 2 usage, 4 when nothing could be tried."""
    # Here and not above: listing recipes loads this file for its options.
    from certify.campaign.request import load_scale
    from certify.recipes.family_table import counts, environment_of, families, merged, render

    table = families(load_scale("tiny"))
    if args.out:
        _try(table, args)
        return EXIT_PASS
    results = merged([_read(Path(path)) for path in args.results])
    if args.write:
        if not results:
            raise UsageError(
                "no result files", where="--write", hint="certify recipes families --try FILE"
            )
        text = render(table, results, date.today().isoformat())
        Path(args.write).write_text(text, encoding="utf-8")
        return EXIT_PASS
    rows = [
        {"id": f.row.id, "model_type": f.model_type, "trial": f.trial, "why": f.why}
        for f in table.rows
    ]
    if args.json:
        summary = {environment_of(r): counts(table, r["results"]) for r in results}
        print(json.dumps({"schema": SCHEMA, "families": rows, "results": summary}))
        return EXIT_PASS
    for row in rows:
        said = row["trial"] or f"not available: {row['why']}"
        print(f"{row['id']:<44} {row['model_type'] or '-':<18} {said}")
    return EXIT_PASS


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        found["results"], found["versions"]["torch"], found["versions"]["transformers"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"no results of families: {error}",
            where=str(path),
            expected="a file written by certify recipes families --try",
        ) from None
    return found


def _try(table: Table, args: argparse.Namespace) -> None:
    wanted = set(args.only.split(",")) if args.only else None
    configs = {
        name: config
        for name, config in table.configs.items()
        if wanted is None or config["model_type"] in wanted
    }
    if args.one_per_type:
        first: dict[str, str] = {}
        for name, config in configs.items():
            first.setdefault(str(config["model_type"]), name)
        configs = {name: configs[name] for name in first.values()}
    if not configs:
        raise UsageError(
            f"no row has the model type {args.only}", where="--only",
            hint="certify recipes families",
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="certify-families-") as folder:
        out = Path(args.out).absolute()
        spec = Path(folder) / "spec.json"
        write_families_spec(FamiliesSpec(configs, str(out), str(Path(folder) / "work")), spec)
        paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [args.python, "-m", "runner.families", str(spec)]
        try:
            done = subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
        except OSError as error:
            raise UsageError(f"cannot start {args.python}: {error}", where="--python") from None
        if done.returncode != 0 or not out.is_file():
            raise InfrastructureError(
                f"the trials ended with code {done.returncode}",
                where=" ".join(command[:3]),
                expected="an environment with torch, transformers and safetensors",
            )
