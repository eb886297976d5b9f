"""The table of model families: for each published row the model type, and how it did at scale tiny.

Rows whose configurations are alike at that scale share one trial. Results come from
``python -m runner.families``, one file for each set of versions. Pure but for reading our data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import CertifyError
from certify.recipes.load import load_model
from certify.recipes.rows import load_support_list
from certify.recipes.scale import SCALABLE, features, scale_model
from certify.recipes.stand_ins import stand_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from certify.recipes.rows import Row

# The vocabulary of trials, which train on random tokens.
VOCABULARY = 96
# Numbers of a configuration that change no shape and no branch of the code at this scale: rows
# that differ in them only share a trial.
_SHARED = (
    "architectures",
    "initializer_range",
    "intermediate_size",
    "layer_norm_epsilon",
    "max_position_embeddings",
    "max_window_layers",
    "pretraining_tp",
    "rms_norm_eps",
    "rope_theta",
    "torch_dtype",
)
DTYPES = {"float32": "fp32", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Family:
    """One row. model_type: of the class that is tried; published_type: where another one is
    published and this class stands in for it; trial: name of the configuration that stands for
    it, or None; why: where there is none; features: of the architecture as published."""

    row: Row
    model_type: str | None
    published_type: str | None
    trial: str | None
    why: str | None
    features: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """rows: in published order; configs: name of a trial -> complete configuration."""

    rows: tuple[Family, ...]
    configs: dict[str, dict[str, Any]]


def families(scale: Mapping[str, Any]) -> Table:
    """Every row of the support list. scale: a parsed file of ``matrices/scales``."""
    names: dict[str, str] = {}
    configs: dict[str, dict[str, Any]] = {}
    rows = []
    for row in load_support_list():
        model_type, published_type, why, trial = None, None, None, None
        published: dict[str, Any] = {}
        try:
            published = dict(load_model(row.model_key).config)
            model_type = published_type = published.get("model_type")
            published = stand_in(published) or published
            model_type = published["model_type"]
            config = complete(scale_model(published, dict(scale["model"]))[0])
            told = {name: entry for name, entry in config.items() if name not in _SHARED}
            key = json.dumps(told, sort_keys=True)
            trial = names.setdefault(key, row.model_key)
            configs.setdefault(trial, config)
        except CertifyError as error:
            why = error.what
            if published:
                why = f"transformers has no class for {model_type}, its code is remote"
        known = features(published) if published else ()
        if published_type == model_type:
            published_type = None
        rows.append(Family(row, model_type, published_type, trial, why, known))
    return Table(tuple(rows), configs)


def complete(scaled: Mapping[str, Any]) -> dict[str, Any]:
    """A scaled configuration with what a campaign would take from the tokenizer."""
    special = {"pad_token_id": None, "bos_token_id": 0, "eos_token_id": 0}
    return {**scaled, "vocab_size": VOCABULARY, **special}


def environment_of(result: Mapping[str, Any]) -> str:
    """The versions of one set of results, as a column's head."""
    versions = result["versions"]
    torch = versions["torch"].partition("+")[0]
    return f"{versions['transformers']} / {torch}"


def merged(every: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Results of equal versions put together, in the order given; a later trial of a name counts
    before an earlier one."""
    found: dict[str, dict[str, Any]] = {}
    for result in every:
        one = found.setdefault(environment_of(result), {**result, "results": {}})
        one["results"] = {**one["results"], **result["results"]}
    return list(found.values())


def trial_of(
    family: Family, table: Table, results: Mapping[str, Any]
) -> tuple[Mapping[str, Any], bool]:
    """(results by precision that stand for a row, whether they are of its own trial).

    Where its own was not run, another trial of the same model type stands for it.
    """
    if family.trial is None:
        return {}, True
    if family.trial in results:
        return results[family.trial], True
    for name, found in results.items():
        told = {one.get("model_type") for one in found.values()}
        told.add(table.configs.get(name, {}).get("model_type"))
        if family.model_type in told:
            return found, False
    return {}, True


def outcome(result: Mapping[str, Any] | None) -> str:
    """One cell: ``ok``, ``-`` where nothing was tried, or the stage that failed."""
    if result is None:
        return "-"
    if result["ok"]:
        return "ok"
    return "absent" if result["stage"] == "build" else f"fails: {result['stage']}"


def counts(table: Table, results: Mapping[str, Any]) -> dict[str, int]:
    """Of one set of results: rows that pass in each precision, and rows in all."""
    found = {"rows": len(table.rows)}
    for dtype, short in DTYPES.items():
        found[short] = sum(
            bool(trial_of(f, table, results)[0].get(dtype, {}).get("ok")) for f in table.rows
        )
    return found


def render(table: Table, every: Sequence[Mapping[str, Any]], day: str) -> str:
    """The page, in Markdown. every: contents of result files, newest versions first."""
    heads = [environment_of(result) for result in every]
    lines = [
        "# Model families at scale tiny",
        "",
        f"Generated on {day} by `certify recipes families --write`; do not edit. Each cell is a "
        "run on a CPU: the stock class of transformers, scaled down with every feature kept, "
        "trained 20 steps by the FSDP2 backend, resumed bit for bit from its checkpoint, exported "
        "as a Hugging Face folder, and reloaded by the stock class with bitwise equal logits. "
        "Nothing here says how a published row trains at its own size.",
        "",
        "Versions are transformers / torch. *absent*: this transformers cannot build the family; "
        "*-*: not tried. "
        "*(type)*: the trial of another row of the same model type stands for this one. "
        "Experts were not divided over ranks in these trials; the tests do that for every family "
        "with fused experts. "
        "*X as Y*: transformers has no class X; Y stands in, because remapped weights "
        "(`python -m runner.stand_ins`) give the logits of plain formulas of X "
        "(tests/runner/test_stand_ins.py).",
        "",
        "| versions | rows that pass in fp32 | in bf16 | of |",
        "|---|---|---|---|",
    ]
    for head, result in zip(heads, every, strict=True):
        n = counts(table, result["results"])
        lines.append(f"| {head} | {n['fp32']} | {n['bf16']} | {n['rows']} |")
    columns = [f"{head}, {short}" for head in heads for short in DTYPES.values()]
    first = ["row", "model type", "class", "oldest of these that runs it"]
    lines += ["", _line([*first, *columns, "why not"]), _line(["---"] * (len(columns) + 5))]
    lines += [_row(family, table, every, heads) for family in table.rows]
    lines += ["", "## What each model type keeps", "", "| model type | features |", "|---|---|"]
    kept: dict[str | None, tuple[str, ...]] = {}
    for f in table.rows:
        if f.model_type in SCALABLE:
            kept[f.model_type] = tuple(dict.fromkeys((*kept.get(f.model_type, ()), *f.features)))
    lines += [f"| {name} | {', '.join(kept[name])} |" for name in sorted(map(str, kept))]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _row(family: Family, table: Table, every: Sequence[Mapping[str, Any]], heads: list[str]) -> str:
    found = [trial_of(family, table, result["results"]) for result in every]
    trials = [trial for trial, _ in found]
    cells = [
        outcome(trial.get(dtype)) + ("" if own else " (type)")
        for trial, own in found
        for dtype in DTYPES
    ]
    passing = [h for h, t in zip(heads, trials, strict=True) if t.get("float32", {}).get("ok")]
    built: Mapping[str, Any] = next(
        (t["float32"] for t in trials if "model_class" in t.get("float32", {})), {}
    )
    reasons = [family.why or ""]
    reasons += [
        f"{head}: {trial[dtype]['reason']}"
        for head, trial in zip(heads, trials, strict=True)
        for dtype in DTYPES
        if dtype in trial and not trial[dtype]["ok"] and trial[dtype]["stage"] != "build"
    ]
    why = "; ".join(reason for reason in reasons if reason).replace("|", "/")
    oldest = passing[-1].partition(" / ")[0] if passing else "-"
    kind = family.model_type or "-"
    if family.published_type:
        kind = f"{family.published_type} as {kind}"
        why = "; ".join(filter(None, ("stand-in, weights remapped in one step", why)))
    first = [family.row.id, kind, built.get("model_class", "-"), oldest]
    return _line([*first, *cells, why])
