"""examples:
  certify recipes list --backend fsdp2 --status Test
  certify recipes list --product A3 --cluster 16x16 --json
  certify recipes show qwen3-235b --backend fsdp2
  certify recipes recommend --product A2 --nodes 2 --npus 8 --seq 32k --stage sft
  certify recipes lint qwen3-235b-a22b-4k-mcore examples/mcore/qwen3_moe
  certify recipes import examples/mcore/qwen3/pretrain_qwen3_8b_4K_ptd.sh
  certify recipes import docs/zh/pytorch/models/supported_models.md

List, show, recommend, check and import the published recipes. Lint exits 1 when it finds an
error, import when a file was refused, recommend when no row fits."""

from __future__ import annotations

import json
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_PASS, UsageError
from certify.recipes.rows import Row, branch_of, load_support_list

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

SCHEMA = "certify.recipes/1"
_COLUMNS = ("id", "category", "seq", "cluster", "backend", "status", "product", "retired")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify recipes`` and its subcommands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="published rows, filtered", allow_abbrev=False)
    listing.add_argument("--model", help="part of the model's name or of the id")
    listing.add_argument("--backend", choices=("legacy", "mcore", "fsdp2"))
    listing.add_argument("--category", choices=("dense", "sparse", "ssm"))
    listing.add_argument("--cluster", help="nodes x NPUs per node, as 16x16")
    listing.add_argument("--status", choices=("Pass", "Test"))
    listing.add_argument("--product", choices=("A2", "A3", "A5"))
    listing.add_argument("--contributor", help="as Ascend")
    listing.add_argument(
        "--kind",
        choices=("row", "variant", "performance", "accuracy"),
        default="row",
        help="published rows, their tuning scripts, or upstream's performance or accuracy scripts",
    )
    show = actions.add_parser("show", help="everything known of one recipe", allow_abbrev=False)
    show.add_argument("recipe", help="id or short name, as qwen3-235b")
    show.add_argument("--backend", choices=("legacy", "mcore", "fsdp2"))
    lint = actions.add_parser("lint", help="check recipes, scripts or YAML", allow_abbrev=False)
    lint.add_argument("targets", nargs="*", metavar="ID|PATH", help="default: every published row")
    lint.add_argument("--format", choices=("text", "json", "sarif"), default="text")
    lint.add_argument(
        "--severity",
        choices=("error", "warning", "info"),
        default="warning",
        help="the least severe findings to print (default: warning)",
    )
    lint.add_argument("--rules", action="store_true", help="list the rules and stop")
    imports = actions.add_parser("import", help="make recipes of scripts", allow_abbrev=False)
    imports.add_argument("sources", nargs="+", metavar="SCRIPT|YAML|SUPPORT_LIST|FOLDER")
    imports.add_argument("--out", metavar="DIR", help="write one recipe file a script")
    imports.add_argument("--repo", metavar="DIR", help="root of the upstream checkout")
    imports.add_argument("--overrides", metavar="WORD", nargs="*", default=[], help=_OVERRIDES)
    advice = actions.add_parser(
        "recommend", help="rows that fit a cluster, best first", allow_abbrev=False
    )
    import_module("certify.cli.recipes_recommend").add_arguments(advice)
    tried = actions.add_parser(
        "families", help="which models run at scale tiny", allow_abbrev=False
    )
    import_module("certify.cli.recipes_families").add_arguments(tried)
    for action in (listing, show, lint, imports, advice, tried):
        action.add_argument("--json", action="store_true", help="one JSON document on stdout")


_OVERRIDES = "with a YAML: its command line, as parallel.ep_size=4"


def _retired(row: Row) -> str:
    return branch_of(row).retired_on(date.today()) or ""


def row_as_json(row: Row) -> dict[str, Any]:
    """The published fields of a row as they appear in ``recipes list --json``."""
    branch = branch_of(row)
    return {
        "id": row.id,
        "row": row.row,
        "kind": "row",
        "category": row.category,
        "model": row.model,
        "size": row.size,
        "weights": row.weights or None,
        "script": row.script,
        "script_link": row.script_link,
        "seq": row.seq,
        "seq_length": row.seq_length,
        "backend": row.backend,
        "cluster": row.cluster,
        "nodes": row.nodes,
        "npus_per_node": row.npus_per_node,
        "world_size": row.world_size,
        "version": row.version or None,
        "supported_until": row.supported_until,
        "contributor": row.contributor,
        "status": row.status,
        "product": row.product or None,
        "retired": _retired(row) or None,
        "maintenance": branch.kind,
    }


def _filters(args: argparse.Namespace) -> list[Callable[[Row], bool]]:
    tests: list[Callable[[Row], bool]] = []
    for key in ("backend", "category", "cluster", "status", "product"):
        wanted = getattr(args, key)
        if wanted:
            tests.append(lambda row, key=key, wanted=wanted: getattr(row, key) == wanted)  # type: ignore[misc]
    if args.contributor:
        tests.append(lambda row: row.contributor.lower() == args.contributor.lower())
    if args.model:
        part = args.model.lower()
        dashed = part.replace(".", "p").replace(" ", "-")
        tests.append(lambda row: part in row.model.lower() or dashed in row.id)
    return tests


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _list(args: argparse.Namespace) -> int:
    if args.kind != "row":
        return _list_scripts(args)
    tests = _filters(args)
    rows = [row for row in load_support_list() if all(test(row) for test in tests)]
    if args.json:
        print(json.dumps({"schema": SCHEMA, "recipes": [row_as_json(row) for row in rows]}))
        return EXIT_PASS
    if rows:
        shown = [
            (*(str(getattr(row, key)) for key in _COLUMNS[:-1]), _retired(row)) for row in rows
        ]
        print(_table([_COLUMNS, *shown]))
    print(f"{len(rows)} of {len(load_support_list())} published rows")
    return EXIT_PASS


def _list_scripts(args: argparse.Namespace) -> int:
    from certify.recipes.poc import list_scripts
    from certify.recipes.variants import list_variants

    wanted = {
        key: getattr(args, key)
        for key in ("backend", "product", "cluster", "model")
        if getattr(args, key)
    }
    every: list[Any] = list(list_variants()) if args.kind == "variant" else list_scripts(args.kind)
    rows = {row.id: row for row in load_support_list()}
    asked = [
        (key, getattr(args, key).lower())
        for key in ("category", "status", "contributor")
        if getattr(args, key)
    ]

    def of_asked_row(row_id: str) -> bool:
        row = rows.get(row_id)
        return not asked or (
            row is not None and all(getattr(row, key).lower() == value for key, value in asked)
        )

    scripts = [one for one in every if one.fits(wanted) and of_asked_row(one.row)]
    if args.json:
        recipes = [script.as_json() for script in scripts]
        print(json.dumps({"schema": SCHEMA, "recipes": recipes}))
        return EXIT_PASS
    columns: tuple[str, ...] = ("id", "row", "scale", "cluster", "product", "fixed_routing")
    if args.kind == "variant":
        columns = ("id", "row", "stage", "seq_length", "cluster", "product")
    if scripts:
        print(_table([columns, *(script.cells(columns) for script in scripts)]))
    print(f"{len(scripts)} {args.kind} scripts")
    return EXIT_PASS


def run(args: argparse.Namespace) -> int:
    """Run the chosen action; returns its exit code."""
    if args.action == "list":
        return _list(args)
    modules = {
        "show": "certify.cli.recipes_show",
        "recommend": "certify.cli.recipes_recommend",
        "families": "certify.cli.recipes_families",
        "lint": "certify.cli.recipes_lint",
        "import": "certify.cli.recipes_import",
    }
    if args.action not in modules:
        raise UsageError(f"unknown action {args.action!r}", where="certify recipes")
    code: int = import_module(modules[args.action]).run(args)
    return code
