"""examples:
  certify resolve                                        this host: the smallest change
  certify resolve --have cann=9.0.0 torch=2.7.1 torch_npu=2.7.1 --product A2
  certify resolve --keep driver,cann                     what may not be touched
  certify resolve --to cann=9.1.0                        what an upgrade costs

Judges the version pairs and prints the cheapest change to a declared stack: what must move, what
may stay, and the lines to paste. Nothing is changed. Components are the keys of
matrices/components.tsv; a list may be split by blanks or commas. Exits 1 when no declared stack can
be reached, 3 when nothing is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from certify.cli.resolve_words import check_keys, check_product, installed, targets_of
from certify.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, UsageError
from certify.resolver import Context, PairResult, Resolution, pair_results, render, smallest_change
from matrices.load import load

if TYPE_CHECKING:
    import argparse

    from matrices.load import Matrix

SCHEMA = "certify.resolve/1"
_STAYS = {
    "reference": "tested together",
    "declared": "declared compatible",
    "undeclared": "neither declared nor tested",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify resolve``."""
    parser.add_argument(
        "--have", nargs="+", action="extend", metavar="KEY=VERSION",
        help="what is installed; without it this host is inspected",
    )  # fmt: skip
    parser.add_argument(
        "--keep", action="append", default=[], metavar="KEY,..", help="what may not be changed"
    )
    parser.add_argument(
        "--to", nargs="+", action="extend", default=[], metavar="KEY=VERSION",
        help="what must be reached; 8.3.RCX means the cheapest release of that train",
    )  # fmt: skip
    parser.add_argument("--for", dest="recipe", metavar="RECIPE", help="add a recipe's needs")
    parser.add_argument("--backend", choices=("mcore", "fsdp2"), help="with --for")
    parser.add_argument("--product", metavar="NAME", help="A2, A3, 950, 910, 310P, cuda or cpu")
    parser.add_argument("--arch", choices=("aarch64", "x86_64"))
    parser.add_argument("--root", default="/", metavar="DIR", help="inspect this tree instead")
    parser.add_argument("--lang", choices=("en", "zh"), default="en")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Prints pairs, changes and what may stay; returns the exit code. Raises UsageError."""
    matrix = load()
    have, context = _starting_point(args, matrix)
    keep = [key.strip() for cell in args.keep for key in cell.split(",") if key.strip()]
    check_keys(keep, matrix, "--keep")
    targets = targets_of(args.to, matrix, have, keep)
    results = pair_results(matrix, have, context)
    found = [(smallest_change(matrix, have, context, keep, one), one) for one in targets]
    change, target = min(found, key=lambda pair: (pair[0].level == "none", pair[0].cost))
    if args.json:
        document = _document(matrix, have, context, keep, target, results, change, args.lang)
        print(json.dumps(document, ensure_ascii=False))
    else:
        print(_page(matrix, have, context, target, results, change, args.lang))
    if change.level == "none":
        return EXIT_FAIL
    return EXIT_PASS if results or target else EXIT_CANNOT_JUDGE


def _starting_point(args: argparse.Namespace, matrix: Matrix) -> tuple[dict[str, str], Context]:
    product, arch, model_type = args.product, args.arch, None
    if args.recipe:
        recipe_product, model_type = _recipe(args.recipe, args.backend)
        product = product or recipe_product
    if product is not None:
        product = check_product(product, matrix)
    if args.have:
        return installed(args.have, matrix, Context(product, arch, model_type))
    from certify.environment.probes import inspect
    from certify.resolver.view import context_of, have_of

    stack = inspect(args.root, tools=args.root == "/")
    seen = context_of(stack, model_type)
    context = Context(product or seen.product, arch or seen.arch, model_type)
    return have_of(stack, matrix), context


def _recipe(name: str, backend: str | None) -> tuple[str | None, str | None]:
    """Product and model type of a recipe."""
    from certify.recipes.load import load_model, load_recipe
    from certify.recipes.names import resolve_name

    recipe = load_recipe(resolve_name(name, backend).row.id)
    try:
        config = load_model(recipe.model_key or "").config
    except UsageError:
        return recipe.product, None
    return recipe.product, config.get("model_type")


def _document(
    matrix: Matrix,
    have: dict[str, str],
    context: Context,
    keep: list[str],
    target: dict[str, str],
    results: list[PairResult],
    change: Resolution,
    lang: str,
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "matrix": matrix.digest,
        "have": have,
        "product": context.product,
        "arch": context.arch,
        "keep": keep,
        "target": target,
        "pairs": [
            {
                "rule": result.rule,
                "status": result.status,
                "components": list(result.components),
                "found": result.found,
                "expected": {key: list(values) for key, values in result.expected.items()},
                "claims": list(result.claims),
                "why": [render(reason, lang) for reason in result.why],
                "conflict": result.conflict or None,
            }
            for result in results
        ],
        "resolution": resolution_document(change, matrix),
    }


def resolution_document(change: Resolution, matrix: Matrix) -> dict[str, object]:
    """A resolution for ``--json``: level, cost, changes, commands, row, stays, undeclared."""
    return {
        "level": change.level,
        "cost": change.cost,
        "changes": [
            {
                "component": step.component,
                "found": step.found or None,
                "target": step.target,
                "cost": step.cost,
                "layer": step.layer,
                "because": step.why,
                "source": _source(step.why, matrix),
                "commands": list(step.commands),
                "stops_jobs": step.stops_jobs,
            }
            for step in change.changes
        ],
        "commands": [line for step in change.changes for line in step.commands],
        "row": change.row,
        "stays": change.stays,
        "undeclared": list(change.undeclared),
        "blocked": list(change.blocked),
    }


def _source(claim_id: str, matrix: Matrix) -> str | None:
    claim = matrix.claim(claim_id) if claim_id not in ("", "target") else None
    return claim.citation() if claim else None


def _page(
    matrix: Matrix,
    have: dict[str, str],
    context: Context,
    target: dict[str, str],
    results: list[PairResult],
    change: Resolution,
    lang: str,
) -> str:
    lines = ["found: " + (" ".join(f"{k}={v}" for k, v in have.items()) or "nothing")]
    if context.product:
        lines.append(f"product: {context.product}")
    lines.append("")
    for result in results:
        if result.status in ("incompatible", "undeclared"):
            lines += _pair_lines(result, lang)
    lines += _change_lines(matrix, target, change)
    return "\n".join(lines)


def _pair_lines(result: PairResult, lang: str) -> list[str]:
    subject, object_ = result.components
    head = f"{result.status}: {subject} {result.found[subject]} with {object_} "
    lines = [f"{head}{result.found[object_]} [{result.rule}]"]
    # The last links hold the conclusion; the statements before them are cited by id.
    lines += [f"  because {render(reason, lang)}" for reason in result.why[-2:]]
    for key, values in result.expected.items():
        lines.append(f"  declared {key}: {', '.join(values)}")
    return [*lines, ""]


def _change_lines(matrix: Matrix, target: dict[str, str], change: Resolution) -> list[str]:
    if change.level == "none":
        pairs = ", ".join(change.blocked) or "what may not be changed"
        return [f"no declared stack can be reached: {pairs} stand against each other"]
    wanted = " ".join(f"{key}={value}" for key, value in target.items())
    title = f"cost of {wanted}" if wanted else "smallest change"
    if not change.changes:
        lines = [f"{title}: none needed ({change.level})"]
    else:
        lines = [f"{title}: {change.cost} ({change.level})"]
    for step in change.changes:
        source = _source(step.why, matrix)
        lines.append(
            f"  {step.component}: {step.found or 'absent'} -> "
            + ("removed" if step.target == "none" else step.target)
            + (f"  [{source}]" if source else "")
        )
        if step.stops_jobs:
            lines.append("    running jobs on this machine stop")
        lines += [f"    $ {command}" for command in step.commands]
    if target:
        for word, meaning in _STAYS.items():
            names = [f"{key} {change.row[key]}" for key, w in change.stays.items() if w == word]
            if names:
                lines.append(f"may stay, {meaning}: {', '.join(names)}")
    elif change.undeclared:
        lines.append(f"stays undeclared: {', '.join(change.undeclared)}")
    return lines
