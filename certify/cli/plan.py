"""examples:
  certify plan qwen3-235b --backend fsdp2
  certify plan qwen3-235b --backend mcore --chip Ascend910 --mfu 0.35
  certify plan qwen3-32b --backend fsdp2 --nodes 2 --npus-per-node 16 --suggest
  certify plan qwen3-235b --backend fsdp2 --trace --json

Does a recipe fit the device, what dominates, what moves, how long is a step at least, and which
change helps most? By closed formulas; --trace adds a second method (FSDP2, needs torch): one step
traced on fake tensors at the real number of ranks. Exit code 0 when it fits, 1 when not, 3 when a
fact that is needed is stated nowhere."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_FAIL, EXIT_PASS, UsageError
from certify.plan import changes, render, suggest
from certify.plan.make import make
from certify.plan.of_name import Options, question

if TYPE_CHECKING:
    import argparse

    from certify.plan.make import Plan
    from certify.plan.of_name import Question


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify plan``."""
    parser.add_argument("recipe", metavar="RECIPE", help="id or short name, as qwen3-235b")
    parser.add_argument("--backend", choices=("fsdp2", "mcore", "legacy"))
    parser.add_argument("--nodes", type=int, metavar="N", help="instead of the script's")
    parser.add_argument("--npus-per-node", type=int, metavar="M", help="devices of a node")
    parser.add_argument("--chip", help="exact name as npu-smi shows it (default: 64 GB)")
    parser.add_argument("--mfu", type=float, metavar="X", help="share of peak, for the time bound")
    parser.add_argument("--peak", type=float, metavar="TFLOPS", help="bf16 peak of a device")
    parser.add_argument(
        "--bandwidth", metavar="WITHIN,ACROSS", help="GB/s of a device inside and between nodes"
    )
    parser.add_argument("--vocab", type=int, metavar="ROWS", help="where no source states it")
    parser.add_argument("--suggest", action="store_true", help="rank layouts that fit")
    parser.add_argument("--trace", action="store_true", help="trace a step as a second method")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _bandwidth(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    try:
        within, across = (float(part) * 1e9 for part in text.split(","))
        if not (0 < within < math.inf and 0 < across < math.inf):
            raise ValueError(text)
    except ValueError:
        raise UsageError(
            f"cannot read {text!r}",
            where="--bandwidth",
            expected="two numbers in GB/s: WITHIN,ACROSS, as 196,25",
        ) from None
    return within, across


def _positive(args: argparse.Namespace) -> None:
    for name in ("nodes", "npus_per_node", "mfu", "peak", "vocab"):
        value = getattr(args, name)
        if value is not None and not 0 < value < math.inf:
            raise UsageError(
                f"{value} is not above 0", where=f"--{name.replace('_', '-')}", expected="above 0"
            )
    if args.mfu is not None and args.mfu > 1:
        raise UsageError(f"an MFU of {args.mfu}", where="--mfu", expected="a share, as 0.35")


def _trace(asked: Question, plan: Plan) -> tuple[list[str], dict[str, Any]]:
    from certify.plan.trace import trace_question

    compared, result = trace_question(asked, plan)
    wall = sum(t["wall_s"] for t in result["traces"])
    lines = [
        f"trace      layers {', '.join(str(t['layers']) for t in result['traces'])} extrapolated;"
        f" {wall:.0f} s, {result['host_peak_bytes'] / 2**30:.2f} GiB of host memory"
    ]
    lines += [
        f"  {c.name:<14} formula {c.formula:>20,.0f}  trace {c.trace:>20,.0f}"
        f"  {c.difference:+.2%}{'' if c.agrees else '  DIFFERS'}"
        for c in compared
    ]
    document = {
        "layers": [t["layers"] for t in result["traces"]],
        "wall_s": wall,
        "host_peak_bytes": result["host_peak_bytes"],
        "unmatched": result["traces"][0]["unmatched"],
        "compared": [
            {"name": c.name, "formula": c.formula, "trace": c.trace, "agrees": c.agrees}
            for c in compared
        ],
    }
    return lines, document


def run(args: argparse.Namespace) -> int:
    """Plan and print; the exit code says whether it fits."""
    _positive(args)
    within, across = _bandwidth(args.bandwidth)
    options = Options(
        args.nodes,
        args.npus_per_node,
        args.chip,
        args.vocab,
        args.mfu,
        args.peak * 1e12 if args.peak else None,
        within,
        across,
    )
    asked = question(args.recipe, args.backend, options)
    plan = make(asked.setting, asked.layout)
    helps = changes.changes(asked.setting, plan)
    suggested = suggest.suggest(asked.setting, asked.layout) if args.suggest else None
    lines, traced = _trace(asked, plan) if args.trace else ([], None)
    if args.json:
        print(json.dumps(render.document(asked, plan, helps, suggested, traced)))
    else:
        print("\n".join([render.text(asked, plan, helps, suggested), *lines]))
    return EXIT_PASS if plan.fits else EXIT_FAIL
