"""``certify recipes show``: everything known of one recipe."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

from certify.cli.recipes import SCHEMA, row_as_json
from certify.errors import EXIT_PASS, UsageError
from certify.recipes.load import Recipe, branch_of, load_recipe, resolve_name
from certify.recipes.models import absent, load_model, model_keys
from certify.recipes.poc import find_script, scripts_of
from certify.recipes.variants import find_variant, variants_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

# Sections printed as key = value, in this order.
_SECTIONS = (
    "cluster", "parallel", "batch", "training", "model", "moe", "mla", "dsa", "ssm", "data",
    "ckpt", "other_options", "env",
)  # fmt: skip


_KIND_WORDS = {
    "variant": "a variant",
    "performance": "upstream's measurement of speed",
    "accuracy": "upstream's measurement of accuracy",
}


def _scale_lines(recipe: Recipe) -> Iterator[str]:
    script = find_script(recipe.id)
    if script is None:
        return
    yield f"scale      {script.scale}"
    if script.fixed_routing == "yes":
        yield "routing    fixed: experts are assigned evenly, so its loss means nothing"


def _find(name: str, backend: str | None) -> tuple[Recipe, str | None]:
    """The recipe of a row, a variant or a script under tests/poc, and what was chosen."""
    script = find_script(name) or find_variant(name)
    if script is not None:
        return load_recipe(script.id), None
    match = resolve_name(name, backend)
    return load_recipe(match.row.id), match.said


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            yield f"  {prefix}{key} = {', '.join(map(str, value))}"
        else:
            yield f"  {prefix}{key} = {value}"


def _row_lines(recipe: Recipe) -> Iterator[str]:
    row = recipe.row
    if row is None:
        return
    if recipe.kind != "row":
        yield f"row        {row.id}, of which this is {_KIND_WORDS[recipe.kind]}"
        yield from _scale_lines(recipe)
    yield f"published  {row.model} {row.size}, {row.seq}, {row.backend_published}, {row.cluster}"
    yield f"status     {row.status} (by {row.contributor})"
    branch = branch_of(row)
    retired = branch.retired_on(date.today())
    version = row.version or "maintained to master"
    how = "ended" if branch.kind == "published" else "was to end"
    yield f"version    {version}" + (f"; maintenance {how} {retired}: retired" if retired else "")
    if row.weights:
        yield f"weights    {row.weights}"


def _lines(recipe: Recipe) -> Iterator[str]:
    source = recipe.source
    yield recipe.id
    yield from _row_lines(recipe)
    yield f"script     {source.repo} {source.path}@{source.commit} (branch {source.branch})"
    yield f"stage      {recipe.stage}, entry {recipe.entry}, product {recipe.product or 'unsaid'}"
    yield from _model_lines(recipe)
    for difference in recipe.differences:
        yield (
            f"differs    {difference['field']}: list says {difference['published']},"
            f" script says {difference['script']}"
        )
    for note in recipe.raw.get("notes", ()):
        yield f"note       {note['about']}: {note['text']}"
    for variant in recipe.raw.get("config_variants", ()):
        yield f"variant    {variant['name']}: {variant['settings']}"
    others = recipe.raw.get("variants", {}).get("pretrain", ())
    if others:
        yield f"beside it  pretrain: {', '.join(others)}"
    if recipe.kind == "row":
        yield from _belonging(recipe)
    for name in _SECTIONS:
        if recipe.raw.get(name):
            yield f"[{name}]"
            yield from _flat(recipe.raw[name])
    if recipe.raw.get("optimisations"):
        yield "[optimisations]"
        yield f"  {', '.join(recipe.raw['optimisations'])}"


def _belonging(recipe: Recipe) -> Iterator[str]:
    """The variants of a row, and upstream's measurements of its model."""
    for one in variants_of(recipe):
        yield (
            f"{one.stage:<10} {one.id}: {one.seq_length} tokens, {one.cluster}"
            f"{f', {one.product}' if one.product else ''}"
        )
    for script in scripts_of(recipe.id):
        routing = ", routing fixed" if script.fixed_routing == "yes" else ""
        yield f"{script.kind:<11} {script.id}: scale {script.scale}, {script.cluster}{routing}"


def _model_json(recipe: Recipe) -> dict[str, Any] | None:
    if recipe.model_key is None:
        return None
    try:
        model = load_model(recipe.model_key)
    except UsageError:
        return None
    source = {
        "url": model.url,
        "read_on": model.read_on,
        "via": model.via,
        "from_script": list(model.from_script),
    }
    return {
        "key": model.key,
        "source": source,
        "note": model.note,
        "config": dict(model.config),
    }


def _absent_json(recipe: Recipe) -> dict[str, str] | None:
    known = absent(recipe.model_key or "")
    if known is None:
        return None
    return {"missing": known.missing, "reason": known.reason, "looked_in": known.looked_in}


def _model_lines(recipe: Recipe) -> Iterator[str]:
    known, key = absent(recipe.model_key or ""), recipe.model_key
    if key in model_keys():
        model = load_model(key)
        yield f"model      {key}: {model.url} (read {model.read_on})"
    if known is not None:
        yield f"unstated   {known.missing}: {known.reason}"


def run(args: argparse.Namespace) -> int:
    """Print one recipe. Raises UsageError with near matches for an unknown name."""
    recipe, said = _find(args.recipe, args.backend)
    if args.json:
        document = {
            "schema": SCHEMA,
            "chosen": said,
            "published": row_as_json(recipe.row) if recipe.row else None,
            "recipe": dict(recipe.raw),
            "variants": [one.as_json() for one in variants_of(recipe)],
            "scripts": [one.as_json() for one in scripts_of(recipe.id)],
            "model_config": _model_json(recipe),
            "model_unstated": _absent_json(recipe),
        }
        print(json.dumps(document, ensure_ascii=False))
        return EXIT_PASS
    print("\n".join(([said] if said else []) + list(_lines(recipe))))
    return EXIT_PASS
