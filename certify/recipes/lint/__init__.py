"""Lint: what is wrong with a recipe, a published script or an FSDP2 configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.importers.values import Origin
from certify.recipes.lint import environment, experts, fsdp2, layout, published, script, training
from certify.recipes.lint.context import Context, Hit, flags_of
from certify.recipes.lint.findings import Finding
from certify.recipes.load import load_recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from certify.recipes.importers.base import Imported

__all__ = ["Finding", "lint_imported", "lint_path", "lint_raw", "lint_recipe"]


def _checks(context: Context) -> Iterator[Hit]:
    if context.megatron:
        for check in (*layout.CHECKS, *training.CHECKS):
            yield from check(context)
        if context.moe:
            for check in experts.CHECKS:
                yield from check(context)
    if context.fsdp2:
        for check in fsdp2.CHECKS:
            yield from check(context)
    yield from experts.fixed(context)
    yield from training.stage(context)
    for check in (*published.CHECKS, *environment.CHECKS, *script.CHECKS):
        yield from check(context)


def _findings(context: Context, hits: Iterable[Hit], recipe: str | None) -> list[Finding]:
    findings = []
    for hit in hits:
        origin = hit.at if isinstance(hit.at, Origin) else context.locate(hit.at)
        findings.append(Finding(hit.rule, hit.found, origin.file, origin.line, recipe))
    return sorted(set(findings), key=lambda f: (f.file, f.line, f.rule, f.found))


def _toml_lines(text: str, name: str) -> dict[str, Origin]:
    """Dotted key -> place in a recipe file of ours (our writer puts one key on a line)."""
    places: dict[str, Origin] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("["):
            section = line.strip("[]") + "."
            places.setdefault(section[:-1], Origin(name, number))
        elif " = " in line and not line.startswith((" ", "#")):
            places.setdefault(section + line.split(" = ", 1)[0], Origin(name, number))
    return places


def lint_raw(raw: dict[str, Any], text: str, file: str) -> list[Finding]:
    """Findings of a recipe file: by the rules, and those recorded when its script was read."""
    places = _toml_lines(text, file)
    context = Context(
        raw, file, lambda key: places.get(key, Origin(file, 1)), flags=flags_of(raw, None)
    )
    findings = _findings(context, _checks(context), raw["id"])
    path = f"{raw['source']['path']}@{raw['source'].get('commit', '')}".rstrip("@")
    for one in raw.get("script_findings", ()):
        findings.append(
            Finding(one["rule"], one["found"], path, one["line"], raw["id"], recorded=True)
        )
    return findings


def lint_recipe(recipe_id: str) -> list[Finding]:
    """Findings of one of our recipes, by its id."""
    from matrices import files

    recipe = load_recipe(recipe_id)
    folder = {"row": "", "variant": "variants/"}.get(recipe.kind, "poc/")
    name = f"recipes/{folder}{recipe.id}.toml"
    return lint_raw(dict(recipe.raw), files.read_text(name), f"matrices/{name}")


def lint_imported(imported: Imported) -> list[Finding]:
    """Findings of a script or YAML that was read, also when it was refused as a recipe."""
    raw: dict[str, Any] = imported.raw or {
        "backend": "none",
        "kind": "script",
        "stage": "pretrain",
        "source": {"path": imported.path},
    }
    context = Context(raw, imported.path, imported.origin, imported, flags=flags_of(raw, imported))
    hits: list[Hit] = [Hit(p.rule, p.found, p.origin) for p in imported.problems]
    for check in script.SCRIPT_CHECKS:
        hits += check(context)
    if imported.raw is not None:
        hits += _checks(context)
    return _findings(context, hits, raw.get("id"))


def lint_path(path: Path, root: Path | None = None) -> tuple[Imported, list[Finding]]:
    """Read a script or a YAML and lint it. Raises UsageError for other files."""
    from certify.recipes.importers import import_file

    if path.suffix == ".toml":
        raise UsageError("recipe files are linted by their id", where=str(path))
    imported = import_file(path, (), root)
    return imported, lint_imported(imported)
