"""examples:
  certify resolve                                        this host: the smallest change
  certify resolve --have cann=9.0.0 torch=2.7.1 torch_npu=2.7.1 --product A2
  certify resolve --keep driver,cann                     what may not be touched
  certify resolve --to cann=9.1.0                        what an upgrade costs

Judges the version pairs and prints the cheapest change to a declared stack: what must move, what
may stay, and the lines to paste. Nothing is changed. Components are the keys of
matrices/components.tsv. Exits 1 when no declared stack can be reached, 3 when nothing is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from certify.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, UsageError
from certify.resolver import Context, PairResult, Resolution, pair_results, render, smallest_change
from certify.versions import from_free_text, parse
from matrices.load import load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

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
        "--to", action="append", default=[], metavar="KEY=VERSION", help="what must be reached"
    )
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
    keep = [key for cell in args.keep for key in cell.split(",") if key]
    _check_keys(keep, matrix, "--keep")
    target = _versions(args.to, matrix, "--to")
    results = pair_results(matrix, have, context)
    change = smallest_change(matrix, have, context, keep, target)
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
        _check_product(product, matrix)
    if args.have:
        return _versions(args.have, matrix, "--have"), Context(product, arch, model_type)
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


def _versions(words: Iterable[str] | None, matrix: Matrix, option: str) -> dict[str, str]:
    answer = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{word!r} is no KEY=VERSION", where=option, hint="cann=9.1.0")
        key = key.replace("-", "_")
        _check_keys([key], matrix, option)
        family = matrix.family(key)
        if parse(family, value) is None:
            found = from_free_text(family, value)
            if found is None:
                raise UsageError(
                    f"{value!r} is no version of {matrix.components[key]['name']}", where=option
                )
            value = found.raw
        answer[key] = value
    return answer


def _check_keys(keys: Iterable[str], matrix: Matrix, option: str) -> None:
    for key in keys:
        if key not in matrix.components:
            from difflib import get_close_matches

            near = get_close_matches(key, matrix.components, n=3, cutoff=0.5)
            hint = f"did you mean: {', '.join(near)}?" if near else "certify matrix list"
            raise UsageError(f"no component {key!r}", where=option, hint=hint)


def _check_product(name: str, matrix: Matrix) -> None:
    names = [row["name"] for row in matrix.tables["products"]]
    if name not in names:
        raise UsageError(f"no product {name!r}", where="--product", expected=", ".join(names))


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
            f"  {step.component}: {step.found or 'absent'} -> {step.target}"
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
