"""From command-line words to facts: the request of a campaign."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from certify.campaign.faults import find_fault
from certify.campaign.phases import choose
from certify.campaign.request import Request, choose_scale, load_scale, training_versions
from certify.errors import UsageError
from certify.recipes.load import load_model, load_recipe
from certify.recipes.names import resolve_name
from certify.recipes.retired import legacy_error
from certify.recipes.rows import load_support_list
from certify.recipes.scale import scale_down

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from certify.recipes.rows import Row


def _require_runnable(row: Row) -> None:
    if row.backend == "fsdp2":
        return
    if row.backend == "legacy":
        raise legacy_error(row, date.today())
    raise UsageError(
        f"{row.id} uses the backend {row.backend}, which this version cannot run",
        where="certify run",
        expected="a row of the backend fsdp2",
        hint=_fsdp2_hint(row),
    )


def _fsdp2_hint(row: Row) -> str:
    siblings = [
        other
        for other in load_support_list()
        if other.model_key == row.model_key and other.backend == "fsdp2"
    ]
    if siblings:
        return f"certify run {row.model_key} --backend fsdp2"
    return "certify recipes list --backend fsdp2"


def _existing(option: str, path: str | None) -> str | None:
    if path is None:
        return None
    if not Path(path).exists():
        raise UsageError("no such file or folder", where=f"{option} {path}")
    return str(Path(path).absolute())


def resolve_request(args: argparse.Namespace, words: Sequence[str]) -> tuple[Request, list[str]]:
    """The request, and notes on choices that were made for the user.

    words: the command line as typed, without the program's name. Everything that can be wrong with
    the request is found here, before anything is written, but for the content of ``--data`` and
    ``--tokenizer``, which the preparation reads. Raises UsageError or CannotJudgeError.
    """
    match = resolve_name(args.recipe, args.backend)
    notes = [match.said] if match.said else []
    _require_runnable(match.row)
    scale_name, why = choose_scale(args.scale)
    notes.append(f"scale {scale_name}: {why}")
    scale = load_scale(scale_name)
    recipe = dict(load_recipe(match.row.id).raw)
    public = dict(load_model(match.row.model_key).config)
    request = Request(
        recipe_id=match.row.id,
        backend=match.row.backend,
        stage=args.stage,
        scale_name=scale_name,
        device=scale["device"],
        recipe=recipe,
        public=public,
        scale=scale,
        scaled=scale_down(recipe, public, scale),
        data_path=_existing("--data", args.data),
        tokenizer_path=_existing("--tokenizer", args.tokenizer),
        phases=choose(args.phases.split(",") if args.phases else None),
        fault=find_fault(args.inject) if args.inject else None,
        versions=training_versions(),
        command=("certify", *words),
    )
    return request, notes
