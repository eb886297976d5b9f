"""The committed table is what its generator writes."""

from __future__ import annotations

from pathlib import Path

from certify.plan.table import main
from certify.recipes.rows import load_support_list

ROOT = Path(__file__).resolve().parents[2]


def test_docs_are_up_to_date(tmp_path: Path) -> None:
    written = tmp_path / "plans.md"
    assert main([str(written)]) == 0
    text = written.read_text(encoding="utf-8")
    assert text == (ROOT / "docs/plans.md").read_text(encoding="utf-8"), (
        "python -m certify.plan.table docs/plans.md"
    )
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) == len(load_support_list()) == 143


def test_usage() -> None:
    assert main([]) == 2
