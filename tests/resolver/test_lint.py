"""The lint: the real matrix is sound, and every kind of fault is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.resolver.lint import lint
from matrices.load import load
from tests.resolver.synthetic import matrix_of

if TYPE_CHECKING:
    from pathlib import Path

    from matrices.load import Matrix

_GOOD = {"id": "torch_npu-1", "components": "torch_npu=2.7.1 torch=2.7.1 cann=8.3.RC1"}


def test_the_matrix_is_sound(matrix: Matrix) -> None:
    assert lint(matrix) == []


def test_a_sound_small_matrix(tmp_path: Path) -> None:
    assert lint(matrix_of(tmp_path, _GOOD)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"source": ""}, "no source"),
        ({"path": ""}, "no source"),
        ({"date": "last week"}, "is no date"),
        ({"dated": "heard"}, "dated 'heard'"),
        ({"kind": "rumour"}, "no kind 'rumour'"),
        ({"state": "new"}, "no state 'new'"),
        ({"components": "torch_npu=2.7.1 cann=nine"}, "no cann version"),
        ({"components": "torch_npu=2.7.1 kernel=5.10"}, "no component 'kernel'"),
        ({"components": "torch_npu=2.7.1"}, "pairs nothing"),
        ({"conflict": "C-999"}, "not in conflicts.tsv"),
        ({"where": "product=A9"}, "no product 'A9'"),
        ({"where": "weather=fair"}, "no condition 'weather'"),
    ],
)
def test_faults_of_one_claim(tmp_path: Path, change: dict[str, str], expected: str) -> None:
    problems = lint(matrix_of(tmp_path, {**_GOOD, **change}))
    assert [problem.claim for problem in problems] == ["torch_npu-1"], problems
    assert expected in problems[0].what


def test_an_id_used_twice(tmp_path: Path) -> None:
    problems = lint(matrix_of(tmp_path, _GOOD, {**_GOOD, "state": "superseded"}))
    assert [problem.what for problem in problems] == ["the id is used twice"]


def test_a_reference_row_against_a_current_claim(tmp_path: Path) -> None:
    against = {
        "id": "torch_npu-2",
        "kind": "incompatible",
        "components": "torch_npu=2.7.1 cann=8.3.RCX",
    }
    problems = lint(matrix_of(tmp_path, _GOOD, against))
    assert len(problems) == 1
    assert "torch_npu-2 declares it incompatible" in problems[0].what
    listed = {**against, "conflict": "C-28"}
    assert lint(matrix_of(tmp_path / "listed", _GOOD, listed)) == []
    superseded = {**against, "state": "superseded"}
    assert lint(matrix_of(tmp_path / "superseded", _GOOD, superseded)) == []


def test_two_rows_that_pair_one_wheel_differently(tmp_path: Path) -> None:
    other = {"id": "torch_npu-2", "components": "torch_npu=2.7.1 torch=2.7.1 cann=8.5.0"}
    problems = lint(matrix_of(tmp_path, _GOOD, other))
    assert [problem.claim for problem in problems] == ["torch_npu-2"]
    assert "cann" in problems[0].what
    listed = {**other, "conflict": "C-19"}
    assert lint(matrix_of(tmp_path / "listed", _GOOD, listed)) == []


def test_faults_of_the_tables(tmp_path: Path) -> None:
    matrix_of(tmp_path, _GOOD)
    relations = tmp_path / "relations.tsv"
    text = relations.read_text(encoding="utf-8")
    relations.write_text(text.replace("\twheel\t", "\tguess\t"), encoding="utf-8")
    components = tmp_path / "components.tsv"
    text = components.read_text(encoding="utf-8")
    components.write_text(text.replace("torch_npu\tpep440", "torch_npu\tpep8"), encoding="utf-8")
    what = [problem.what for problem in lint_of(tmp_path)]
    assert "no policy 'guess'" in what
    assert "no version family 'pep8'" in what


def lint_of(folder: Path) -> list:  # type: ignore[type-arg]
    try:
        return lint(load(folder))
    except KeyError:
        pytest.fail("a wrong family must be reported, not raised")
