"""The published page says what the file says."""

from __future__ import annotations

from pathlib import Path

from certify.criteria.explained import explain_gate
from certify.criteria.load import load_criteria
from certify.criteria.page import BEGIN, END, main, tables

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "criteria.md"


def test_the_generated_part_is_up_to_date() -> None:
    """If not: python -m certify.criteria.page docs/criteria.md"""
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == tables(load_criteria())


def test_every_row_is_on_the_page() -> None:
    text, criteria = PAGE.read_text(encoding="utf-8"), load_criteria()
    for row in criteria.thresholds:
        assert f"| {row.name} | {row.value:g} | {row.unit} |" in text
        assert row.reason in text
    for gate in criteria.gates:
        assert f"\n### {gate.id}\n" in text
    for claim in criteria.claims:
        assert claim.limits in text


def test_the_chinese_page_has_every_gate_with_the_texts_of_explain() -> None:
    """If not: python -m certify.criteria.page docs/zh/criteria.md"""
    text, criteria = (DOCS / "zh" / "criteria.md").read_text(encoding="utf-8"), load_criteria()
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == tables(criteria, "zh")
    for gate in criteria.gates:
        said = explain_gate(gate.id, "zh")
        assert said is not None
        for part in (said.rule, said.meaning, *(case.text for case in said.cases)):
            assert part in text


def test_the_page_names_the_public_cases() -> None:
    text = PAGE.read_text(encoding="utf-8")
    said = explain_gate("resume")
    assert said is not None
    assert all(f"[{case.ref}]({case.url}): {case.text}" in text for case in said.cases)
    assert said.cases


def test_numbers_in_the_prose_are_those_of_the_file() -> None:
    prose = " ".join(PAGE.read_text(encoding="utf-8").partition(BEGIN)[0].split())
    value = {(row.gate, row.name): row.value for row in load_criteria().thresholds}
    assert "at least 25 steps each, at most 20 blocks, at least 4" in prose
    blocks = [value["loss-curve", n] for n in ("block-steps", "most-blocks", "fewest-blocks")]
    assert blocks == [25, 20, 4]
    assert "within 0.5%" in prose
    assert value["loss-curve", "band-floor"] == 0.005
    assert "never more than 2%" in prose
    assert value["loss-curve", "band-cap"] == 0.02


def test_rewriting_keeps_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    assert main([str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n\nVersion v1")
    assert text.endswith(f"{END}\nafter\n")
    assert "\nold\n" not in text
