"""Small matrices made up for a test: the tables of the real one, the claims of the test."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from matrices.load import COLUMNS, FOLDER, Matrix, load

if TYPE_CHECKING:
    from pathlib import Path

_DEFAULTS = {
    "kind": "reference", "state": "current", "where": "", "source": "test", "path": "table.md",
    "ref": "-", "table": "table 1", "date": "2026-01-01", "dated": "published", "since": "",
    "conflict": "", "note": "",
}  # fmt: skip


def write_claims(folder: Path, *rows: dict[str, str]) -> None:
    """Claims into ``claims/``, one file for each scope; a row needs an id and components."""
    claims = folder / "claims"
    claims.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[str]] = {}
    for row in rows:
        full = {**_DEFAULTS, **row}
        scope = row["id"].rpartition("-")[0]
        files.setdefault(scope, []).append("\t".join(full[column] for column in COLUMNS))
    for scope, lines in files.items():
        text = "\n".join(["\t".join(COLUMNS), *lines]) + "\n"
        (claims / f"{scope}.tsv").write_text(text, encoding="utf-8")


def matrix_of(folder: Path, *rows: dict[str, str]) -> Matrix:
    """A matrix of these claims with the real tables of components, relations and products."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("components", "relations", "products", "conflicts", "chips"):
        shutil.copy(FOLDER / f"{name}.tsv", folder / f"{name}.tsv")
    write_claims(folder, *rows)
    return load(folder)
