"""``certify recipes recommend``: the published rows that fit a cluster, best first."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import TYPE_CHECKING, Any

from certify.cli.recipes import SCHEMA, row_as_json
from certify.environment.products import chip_family
from certify.errors import EXIT_FAIL, EXIT_PASS, UsageError
from certify.recipes.load import load_branches, load_recipe, load_support_list, near_matches
from certify.recipes.recommend import (
    REASONS,
    STAGES,
    Recommendation,
    Suggestion,
    Wanted,
    folded,
    offers_of,
    recommend,
)
from matrices import files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from certify.recipes.rows import Row

_PRODUCTS = ("A2", "A3", "A5")
_SHOWN = 3
_LEAST_SEQ, _MOST_SEQ = 1, 1 << 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify recipes recommend``."""
    parser.add_argument("--product", required=True, help="A2, A3, A5, or a chip as 910B3")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--npus", type=int, default=8, metavar="N", help="of a node; default: 8")
    parser.add_argument("--seq", default="4k", metavar="LENGTH", help="as 32k; default: 4k")
    parser.add_argument("--stage", choices=tuple(STAGES), default="pretrain")
    parser.add_argument("--model", help="part of the model's name or of the id")
    parser.add_argument(
        "--pytorch-native", action="store_true", help="FSDP2 first: plain PyTorch is wanted"
    )
    parser.add_argument(
        "--limit", type=int, default=10, metavar="N", help="rows to print; default: 10, 0: all"
    )


def _product(name: str) -> tuple[str, int | None]:
    """The product of the list and the memory of one NPU in MB, from a product or chip name."""
    if name.upper() in _PRODUCTS:
        return name.upper(), None
    family = chip_family(name)
    if family is None:
        chips = ", ".join(fields["chip"] for fields in files.read_tsv("chips.tsv"))
        raise UsageError(
            f"unknown product {name!r}",
            where="--product",
            expected=f"A2, A3, A5, or a chip: {chips}",
        )
    plain = re.sub(r"(?i)^ascend[ _-]?", "", name)
    memory = None
    for fields in files.read_tsv("chips.tsv"):
        if re.sub(r"(?i)^ascend", "", fields["chip"]).lower() == plain.lower():
            memory = int(fields["memory_mb"])
    return ("A5" if family == "950" else family), memory


def _length(text: str) -> int:
    """Tokens of ``32k`` or ``32768``. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,8})(k?)", text.strip().lower())
    tokens = int(match.group(1)) * (1024 if match.group(2) else 1) if match else 0
    if not _LEAST_SEQ <= tokens <= _MOST_SEQ:
        raise UsageError(
            f"not a sequence length: {text!r}", where="--seq", expected="tokens, as 32k or 32768"
        )
    return tokens


def _wanted(args: argparse.Namespace) -> Wanted:
    for option, value in (("--nodes", args.nodes), ("--npus", args.npus)):
        if value < 1:
            raise UsageError(f"{option} is {value}", where=option, expected="at least 1")
    product, memory_mb = _product(args.product)
    return Wanted(
        product=product,
        nodes=args.nodes,
        npus_per_node=args.npus,
        seq_length=_length(args.seq),
        stage=args.stage,
        pytorch_native=args.pytorch_native,
        memory_mb=memory_mb,
    )


def _rows(model: str | None) -> list[Row]:
    rows = load_support_list()
    if model is None:
        return list(rows)
    part = model.lower()
    dashed = part.replace(".", "p").replace(" ", "-")
    found = [row for row in rows if part in row.model.lower() or dashed in row.id]
    if not found:
        near = near_matches(model)
        raise UsageError(
            f"no published row of a model {model!r}",
            where="--model",
            hint=f"did you mean: {', '.join(near)}?" if near else "certify recipes list",
        )
    return found


def _suggestion_json(rank: int, one: Suggestion) -> dict[str, Any]:
    offer = one.offer
    return {
        "rank": rank,
        "id": offer.row.id,
        "recipe": offer.recipe,
        "backend": offer.row.backend,
        "status": offer.row.status,
        "standing": one.standing,
        "stage": offer.stage,
        "script": offer.script,
        "branch": offer.branch,
        "seq_length": offer.seq_length,
        "nodes": offer.nodes,
        "npus_per_node": offer.npus_per_node,
        "product": offer.product or None,
        "retired": one.retired_on,
        "notes": list(one.notes),
        "published": row_as_json(offer.row),
    }


def _document(wanted: Wanted, found: Recommendation) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "wanted": {
            "product": wanted.product,
            "memory_mb": wanted.memory_mb,
            "nodes": wanted.nodes,
            "npus_per_node": wanted.npus_per_node,
            "seq_length": wanted.seq_length,
            "stage": wanted.stage,
            "pytorch_native": wanted.pytorch_native,
        },
        "recommended": [
            _suggestion_json(rank, one) for rank, one in enumerate(found.fitting, start=1)
        ],
        "refused": [
            {
                "id": one.row.id,
                "reasons": [{"code": r.code, "detail": r.detail} for r in one.reasons],
            }
            for one in found.refused
        ],
    }


def _suggestion_lines(rank: int, one: Suggestion) -> Iterator[str]:
    offer = one.offer
    cluster = f"{offer.nodes}x{offer.npus_per_node}"
    yield (
        f"{rank:>3}  {offer.row.id}  {offer.row.backend_published} {offer.row.status}, "
        f"{offer.seq_length // 1024}k, {cluster} {offer.product or 'product unsaid'}"
    )
    yield f"     {offer.script} (branch {offer.branch})"
    if one.standing == "legacy":
        yield "     upstream retired the Legacy backend: take a living row where there is one"
    elif one.retired_on:
        branch = offer.row.supported_until
        yield f"     retired: maintenance of branch {branch} ended {one.retired_on}"
    for note in one.notes:
        yield f"     {note}"


def _lines(wanted: Wanted, found: Recommendation, limit: int) -> Iterator[str]:
    what = f"{wanted.stage} at {wanted.seq_length} tokens"
    cluster = f"{wanted.nodes}x{wanted.npus_per_node} {wanted.product}"
    total = len(found.fitting) + len(found.refused)
    yield f"{len(found.fitting)} of {total} rows fit {what} on {cluster}"
    shown = found.fitting[:limit] if limit else found.fitting
    for rank, one in enumerate(shown, start=1):
        yield from _suggestion_lines(rank, one)
    if len(shown) < len(found.fitting):
        yield f"     and {len(found.fitting) - len(shown)} more: --limit 0"
    groups = folded(found.refused)
    if groups:
        yield "not these:"
    for code, rows in groups.items():
        named = [f"{row} ({detail})" for row, detail in rows]
        text = ", ".join(named[:_SHOWN] if limit else named)
        more = f" and {len(rows) - _SHOWN} more" if limit and len(rows) > _SHOWN else ""
        yield f"{len(rows):>3}  {REASONS.get(code, code)}: {text}{more}"
    if wanted.memory_mb is None and found.fitting:
        yield "memory: planned for the 64 GB that the list assumes; name the chip (--product 910B3)"


def run(args: argparse.Namespace) -> int:
    """Print the ranking; exit code 0 when a row fits, 1 when none does."""
    from certify.recipes.fit import planned_fit

    wanted = _wanted(args)
    if args.limit < 0:
        raise UsageError(f"--limit is {args.limit}", where="--limit", expected="at least 0")
    offers = {row: offers_of(row, load_recipe(row.id), wanted.stage) for row in _rows(args.model)}
    found = recommend(wanted, offers, load_branches(), date.today(), planned_fit)
    if args.json:
        print(json.dumps(_document(wanted, found), ensure_ascii=False))
    else:
        print("\n".join(_lines(wanted, found, args.limit)))
    return EXIT_PASS if found.fitting else EXIT_FAIL
