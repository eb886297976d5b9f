"""The table of model families, and the command that makes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from certify.__main__ import main
from certify.campaign.request import load_scale
from certify.recipes.family_table import counts, families, merged, render, trial_of
from certify.recipes.rows import load_support_list

if TYPE_CHECKING:
    from pathlib import Path

TABLE = families(load_scale("tiny"))


def result(transformers: str, **trials: dict[str, Any]) -> dict[str, Any]:
    versions = {"transformers": transformers, "torch": "2.13.0+cpu"}
    return {"versions": versions, "ranks": 1, "results": trials}


def passed() -> dict[str, Any]:
    one = {"ok": True, "model_class": "XForCausalLM"}
    return {"float32": one, "bfloat16": one}


def test_every_row_has_a_trial_or_a_reason() -> None:
    assert len(TABLE.rows) == len(load_support_list())
    for family in TABLE.rows:
        assert (family.trial is None) == (family.why is not None)
        if family.trial:
            assert TABLE.configs[family.trial]["model_type"] == family.model_type
    standing = {f.published_type for f in TABLE.rows if f.published_type}
    assert standing == {"aquila", "internlm", "internlm2", "qwen"}
    # Rows that are alike at this scale share a trial.
    assert len(TABLE.configs) < sum(f.trial is not None for f in TABLE.rows)


def test_the_page_counts_rows_and_says_why_not() -> None:
    failed = {"ok": False, "stage": "train", "reason": "a | b"}
    absent = {"ok": False, "stage": "build", "reason": "unknown"}
    by_row = {f.row.id: f.trial for f in TABLE.rows}
    moe = str(by_row["qwen3-30b-a3b-4k-fsdp2"])
    new = result("5.24.0", **{moe: passed()})
    old = result("4.57.6", **{moe: {"float32": failed, "bfloat16": absent}})
    page = render(TABLE, [new, old], "2026-12-01")
    alike = sum(f.trial == moe for f in TABLE.rows)
    assert counts(TABLE, new["results"]) == {"rows": 143, "fp32": alike, "bf16": alike}
    assert f"| 5.24.0 / 2.13.0 | {alike} | {alike} | 143 |" in page
    assert "| 4.57.6 / 2.13.0 | 0 | 0 | 143 |" in page
    (line,) = [x for x in page.splitlines() if x.startswith("| qwen3-30b-a3b-4k-fsdp2 |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:4] == ["qwen3_moe", "XForCausalLM", "5.24.0"]
    assert cells[4:8] == ["ok", "ok", "fails: train", "absent"]
    assert cells[8] == "4.57.6 / 2.13.0: a / b"
    (other,) = [x for x in page.splitlines() if x.startswith("| mamba3-4k-mcore |")]
    assert "no public configuration" in other
    assert page.count("\n| ") > 143


def test_results_of_equal_versions_go_together_and_types_stand_for_rows() -> None:
    first, second = result("5.24.0", a=passed()), result("5.24.0", b=passed())
    (one,) = merged([first, second])
    assert set(one["results"]) == {"a", "b"}
    dense = [f for f in TABLE.rows if f.model_type == "qwen3"]
    trials = {str(f.trial): f for f in dense}
    assert len(trials) > 1
    name, *_ = trials
    for other, family in trials.items():
        found, own = trial_of(family, TABLE, {name: passed()})
        assert found["float32"]["ok"]
        assert own == (other == name)


def test_the_command_lists_and_refuses_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recipes", "families", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["families"]) == 143
    path = tmp_path / "r.json"
    path.write_text("[]")
    page = tmp_path / "page.md"
    assert main(["recipes", "families", "--write", str(page), str(path)]) == 2
    assert "no results of families" in capsys.readouterr().err
    path.write_text(json.dumps(result("5.24.0")))
    assert main(["recipes", "families", "--write", str(page), str(path)]) == 0
    assert page.read_text().startswith("# Model families")
    assert main(["recipes", "families", "--write", str(page)]) == 2
    assert main(["recipes", "families", "--try", str(path), "--only", "nothing"]) == 2
