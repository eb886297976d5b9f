"""examples:
  certify check-env
  certify check-env --report report.txt
  npu-smi info | certify check-env --report -
  certify check-env --for qwen3-235b --backend fsdp2
  certify check-env --root /mnt/image --json
  certify check-env --merge node01.json node02.json

Does this stack fit together? Reads files only: nothing that is inspected is imported, and the
only programs ever run are npu-smi and hccn_tool, with a time limit. Exits 0 when the stack is a
reference or declared compatible, 1 when something cannot work, 3 when that cannot be told."""

from __future__ import annotations

import gc
import os
import sys

from certify.environment.render.words import language
from certify.errors import (
    EXIT_CANNOT_JUDGE,
    EXIT_FAIL,
    EXIT_INFRASTRUCTURE,
    EXIT_PASS,
    UsageError,
)
from certify.light import module as load

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from certify.environment.stack import Stack
    from certify.resolver.rules.recipe import RecipeNeeds
    from matrices.load import Matrix

_EXIT = {
    "reference": EXIT_PASS,
    "compatible": EXIT_PASS,
    "incompatible": EXIT_FAIL,
    "unverified": EXIT_CANNOT_JUDGE,
    "unknown": EXIT_CANNOT_JUDGE,
}
_MAX_REPORT_BYTES = 64 << 20
FORMATS = ("text", "json", "markdown", "junit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify check-env``."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--report", metavar="FILE", help="judge pasted text; - reads stdin")
    source.add_argument("--root", metavar="DIR", help="judge an image or tree unpacked in DIR")
    source.add_argument("--merge", nargs="+", metavar="NODE.json", help="answers of several nodes")
    source.add_argument("--nodes", metavar="LIST", help="ask node[01-16],other over ssh, and merge")
    parser.add_argument("--for", dest="recipe", metavar="RECIPE", help="also what a recipe needs")
    parser.add_argument("--backend", choices=("legacy", "mcore", "fsdp2"), help="of the recipe")
    parser.add_argument("--product", metavar="NAME", help="device, where it cannot be seen: A2, A3")
    parser.add_argument("--keep", metavar="A,B", default="", help="what may not change")
    parser.add_argument("--no-tools", action="store_true", help="do not run npu-smi")
    parser.add_argument("--lang", choices=("en", "zh"), help="default: by locale")
    parser.add_argument("--redact", action="store_true", help="hide hosts, users and addresses")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--json", action="store_true", help="the same as --format json")


def run(args: argparse.Namespace) -> int:
    """Check, print, and answer with the exit code of the verdict."""
    # The matrix is many small objects that all live to the end: looking through them for garbage,
    # now and at exit, would take a tenth of the whole time.
    gc.disable()
    try:
        return _run(args)
    finally:
        gc.freeze()
        gc.enable()


def _run(args: argparse.Namespace) -> int:
    lang = args.lang or language()
    if args.json and args.format not in ("text", "json"):
        raise UsageError(
            f"--json and --format {args.format}",
            where="certify check-env",
            expected="one form of output",
            hint=f"certify check-env --format {args.format}",
        )
    style = "json" if args.json else args.format
    if args.merge or args.nodes:
        return _nodes(args, style, lang)
    from certify.environment.redact import everywhere
    from certify.environment.render.document import document
    from certify.resolver.verdict import judge

    matrix = load_matrix()
    product = check_product(matrix, args.product)
    needs, said = recipe_needs(args.recipe, args.backend) if args.recipe else (None, None)
    verdict = judge(
        stack := read_stack(args),
        matrix,
        product=product,
        recipe=needs,
        keep=keep_of(args.keep, matrix),
    )
    answer = everywhere(document(stack, verdict, matrix, lang), args.redact)
    _print(answer, style, lang, (said,) if said else ())
    return _EXIT[verdict.verdict]


def load_matrix() -> Matrix:
    """The matrix of this installation. Raises UsageError when it cannot be read."""
    from matrices.load import MatrixError, load

    try:
        return load()
    except MatrixError as error:
        raise UsageError(str(error), where="matrices", hint="certify matrix lint") from error


def read_stack(args: argparse.Namespace) -> Stack:
    """The stack of a report, a tree or this host."""
    if args.report is not None:
        from certify.environment.report import read_report

        name = "stdin" if args.report == "-" else os.path.basename(args.report)
        return read_report(read_file(args.report), name)
    from certify.environment.probes import inspect

    root = args.root or "/"
    if args.root is not None and not os.path.isdir(root):
        raise UsageError(
            f"{root} is no folder", where="--root", hint="docker export NAME | tar -x -C DIR"
        )
    return inspect(root, tools=not args.no_tools)


def read_file(path: str) -> bytes:
    """A report file, or stdin for ``-``. Raises UsageError when it cannot be read."""
    if path == "-":
        return sys.stdin.buffer.read(_MAX_REPORT_BYTES)
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_REPORT_BYTES)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}",
            where="--report",
            expected="a file with the pasted text, or - for stdin",
            hint="certify collector > collect.sh; sh collect.sh > report.txt",
        ) from error


def check_product(matrix: Matrix, name: str | None) -> str | None:
    """A product name in the matrix's spelling. Raises UsageError for an unknown one."""
    if name is None:
        return None
    known = {row["name"].lower(): row["name"] for row in matrix.tables["products"]}
    known["a5"] = "950"
    if name.lower() not in known:
        raise UsageError(
            f"unknown product {name!r}",
            where="--product",
            expected="one of " + ", ".join(row["name"] for row in matrix.tables["products"]),
            hint="certify check-env --product A2",
        )
    return known[name.lower()]


def keep_of(text: str, matrix: Matrix) -> tuple[str, ...]:
    """Components of ``--keep``. Raises UsageError for one that the matrix does not know."""
    names = tuple(part.strip().replace("-", "_") for part in text.split(",") if part.strip())
    for name in names:
        if name not in matrix.components:
            raise UsageError(
                f"unknown component {name!r}", where="--keep", hint="certify matrix list"
            )
    return names


def recipe_needs(name: str, backend: str | None) -> tuple[RecipeNeeds, str | None]:
    """What a recipe asks of a host, and what its short name was taken for.

    Raises UsageError for an unknown or ambiguous name.
    """
    from certify.recipes.load import load_model, load_recipe
    from certify.recipes.names import resolve_name
    from certify.resolver.rules.recipe import RecipeNeeds

    match = resolve_name(name, backend)
    recipe = load_recipe(match.row.id)
    model_type = None
    if recipe.model_key:
        try:
            config: dict[str, Any] = dict(load_model(recipe.model_key).config)
        except UsageError:
            config = {}
        model_type = config.get("model_type")
    env = {key: str(value) for key, value in recipe.raw.get("env", {}).items()}
    source = recipe.source
    needs = RecipeNeeds(
        recipe.id,
        recipe.backend,
        recipe.product,
        recipe.cluster.npus_per_node,
        model_type,
        source.branch,
        env,
        f"{source.repo} {source.path}@{source.commit or source.branch or ''}",
    )
    said = match.said or (f"recipe: {recipe.id}" if recipe.id != name else None)
    return needs, said


def _print(answer: dict[str, Any], style: str, lang: str, notes: tuple[str, ...]) -> None:
    if style == "json":
        import json

        print(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    module = load(f"certify.environment.render.{style}")
    rendered = (
        module.text(answer, lang, notes)
        if style == "text"
        else module.markdown(answer, lang)
        if style == "markdown"
        else module.junit(answer)
    )
    # A terminal of another encoding must not turn an answer into a traceback.
    encoding = sys.stdout.encoding or "utf-8"
    print(rendered.encode(encoding, "replace").decode(encoding, "replace"))


def _nodes(args: argparse.Namespace, style: str, lang: str) -> int:
    from certify.cli.check_env_nodes import ask_nodes, read_nodes
    from certify.environment.nodes import merge
    from certify.environment.redact import everywhere
    from certify.environment.render.nodes import nodes_junit, nodes_markdown, nodes_text

    silent: dict[str, str] = {}
    if args.merge:
        documents = read_nodes(args.merge)
    else:
        documents, silent = ask_nodes(args.nodes)
    answer = everywhere(merge(documents, silent), args.redact)
    if style == "json":
        import json

        print(json.dumps(answer, ensure_ascii=False, indent=2))
    elif style == "junit":
        print(nodes_junit(answer))
    elif style == "markdown":
        print(nodes_markdown(answer, lang))
    else:
        print(nodes_text(answer, lang))
    return EXIT_INFRASTRUCTURE if silent else _EXIT[answer["verdict"]]
