"""``certify recipes import``: published scripts, YAML and support lists as recipes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.cli.recipes import SCHEMA
from certify.errors import EXIT_FAIL, EXIT_PASS, UsageError
from certify.recipes.importers import Imported, import_file
from certify.recipes.importers.support_list import compare, read_list
from certify.recipes.importers.text import find_root, read_source
from certify.recipes.rows import OUR_LANGUAGE, load_support_list
from certify.recipes.schema import check_recipe
from certify.recipes.toml_text import dumps

if TYPE_CHECKING:
    import argparse

_SUFFIXES = (".sh", ".yaml", ".yml")
_MAX_FILES = 20_000


def _files(source: Path) -> list[Path]:
    """The file itself, or every script and YAML below a folder."""
    if not source.is_dir():
        return [source]
    found = sorted(path for path in source.rglob("*") if path.suffix in _SUFFIXES)
    if len(found) > _MAX_FILES:
        raise UsageError(f"{len(found)} files", where=str(source), expected=f"{_MAX_FILES} at most")
    return found


def companions(every: list[Imported]) -> set[str]:
    """The YAML files that some imported script names: they are part of its recipe."""
    return {one.raw["source"].get("companion_yaml", "") for one in every if one.raw is not None}


def _import_list(path: Path, args: argparse.Namespace) -> int:
    document = read_list(read_source(path), str(path))
    changes = compare(load_support_list(), document)
    if args.json:
        print(json.dumps({
            "schema": SCHEMA,
            "language": document.language,
            "compared_with": OUR_LANGUAGE,
            "rows": [{"line": row.line, **row.fields} for row in document.rows],
            "problems": [{"line": line, "message": text} for line, text in document.problems],
            "changes": [vars(change) for change in changes],
        }, ensure_ascii=False))  # fmt: skip
        return EXIT_PASS
    print(f"{path}: {len(document.rows)} rows, {document.language}")
    if document.language != OUR_LANGUAGE:
        print(
            "our list was read from upstream's Chinese document:"
            " what follows may be a difference between the languages"
        )
    for line, text in document.problems:
        print(f"{path}:{line}: {text}")
    for change in changes:
        if change.kind == "changed":
            print(f"{change.key}: {change.field} was {change.ours!r}, is {change.theirs!r}")
        else:
            print(f"{change.key}: {change.kind}")
    counts = Counter(change.kind for change in changes)
    summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"since our list was read: {summary or 'nothing changed'}")
    return EXIT_PASS


def _as_json(imported: Imported) -> dict[str, Any]:
    problems = [
        {"rule": p.rule, "found": p.found, "file": p.origin.file, "line": p.origin.line}
        for p in imported.problems
    ]
    return {
        "path": imported.path,
        "recipe": None if imported.refused else imported.raw,
        "refused": imported.refused,
        "problems": problems,
    }


def _write(out: Path, imported: Imported) -> None:
    assert imported.raw is not None
    target = out / f"{imported.raw['id']}.toml"
    number = 2
    while target.exists():
        # Scripts of the same name in different folders are different recipes.
        target = out / f"{imported.raw['id']}-{number}.toml"
        number += 1
    target.write_text(
        f"# Imported from {imported.path}.\n{dumps({**imported.raw, 'id': target.stem})}",
        encoding="utf-8",
    )


def _report(every: list[Imported]) -> None:
    taken = [one for one in every if one.refused is None]
    for one in every:
        if one.refused:
            print(f"{one.path}: refused: {one.refused}")
        elif len(every) < 20:
            print(f"{one.path}: imported")
        for problem in one.problems if len(every) < 20 else ():
            print(f"  {problem.origin.file}:{problem.origin.line} {problem.rule} {problem.found}")
    training = [one for one in every if not (one.refused or "").startswith(("it ", "reinforce"))]
    share = 100 * len(taken) / len(training) if training else 100.0
    print(
        f"{len(taken)} imported, {len(every) - len(taken)} refused of {len(every)} files"
        f" ({share:.1f}% of the {len(training)} that train)"
    )


def run(args: argparse.Namespace) -> int:
    """Import every source. Exit 1 when a file that was named was refused."""
    sources = [Path(source) for source in args.sources]
    missing = [path for path in sources if not path.exists()]
    if missing:
        raise UsageError("no such file or folder", where=str(missing[0]))
    if any(path.suffix == ".md" for path in sources):
        if len(sources) > 1:
            raise UsageError("a support list is imported alone", where="certify recipes import")
        return _import_list(sources[0], args)
    root = Path(args.repo) if args.repo else None
    every: list[Imported] = []
    for source in sources:
        top = root or find_root(source / "x" if source.is_dir() else source)
        every += [import_file(path, tuple(args.overrides), top) for path in _files(source)]
    for one in every:
        if one.raw is not None and one.refused is None:
            check_recipe(one.raw, one.path)
    if args.out:
        out = Path(args.out)
        out.mkdir(parents=True, exist_ok=True)
        for one in every:
            if one.refused is None:
                _write(out, one)
    if args.json:
        print(json.dumps({"schema": SCHEMA, "imported": [_as_json(one) for one in every]}))
    else:
        _report(every)
    named = [path for path in sources if not path.is_dir()]
    return EXIT_FAIL if named and any(one.refused for one in every) else EXIT_PASS
