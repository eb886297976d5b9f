"""``certify matrix`` as a command: whole output and exit codes."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from certify.cli import main
from matrices.load import FOLDER, load

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENT = """| Triton-Ascend Version| CANN Commercial Version |
|--|--|
| 3.2.2 | CANN 9.1.0 |
| 3.9.0 | CANN 10.0.0 |
"""


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["matrix", *words])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = call(capsys, *words, "--json")
    return code, json.loads(out)


def test_list_counts_every_claim(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "list")
    matrix = load()
    assert code == 0
    assert out.startswith(f"matrix {matrix.digest}: {len(matrix.history)} claims")
    code, found = document(capsys, "list")
    assert found["schema"] == "certify.matrix/1"
    counted = sum(sum(states.values()) for states in found["claims"].values())
    assert counted == len(matrix.history)
    assert {"key": "cann", "family": "cann", "cost": 100, "name": "CANN toolkit"} in found[
        "components"
    ]


def test_show_one_version_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "show", "triton_ascend=3.2.2")
    assert code == 0
    assert "triton_ascend-0001  reference" in out
    assert "triton-lang/triton-ascend docs/zh/release_note.md" in out
    assert "3.2.0rc4" not in out


def test_show_hides_history_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _, few = document(capsys, "show", "mindspeed_core=26.1.0_core_r0.12.1")
    _, all_claims = document(capsys, "show", "mindspeed_core=26.1.0_core_r0.12.1", "--all")
    states = {claim["state"] for claim in all_claims["claims"]}
    assert {claim["state"] for claim in few["claims"]} == {"current"}
    assert "contradicted" in states
    _, one = document(capsys, "show", "mindspeed_core-0011")
    assert [claim["id"] for claim in one["claims"]] == ["mindspeed_core-0011"]


def test_show_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = document(capsys, "show", "product=Atlas350")
    assert code == 0
    assert all("Atlas350" in claim["where"]["product"] for claim in found["claims"])
    assert found["claims"]


def test_lint_passes_on_the_shipped_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "lint")
    assert (code, out) == (0, f"{len(load().history)} claims checked, 0 faults\n")


def test_lint_fails_on_a_fault(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "matrices"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("compiled.bin", "recipes"))
    path = folder / "claims" / "torchvision.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("PyPI", "", 1), encoding="utf-8")
    monkeypatch.setattr("matrices.load.FOLDER", folder)
    code, found = document(capsys, "lint")
    assert code == 1
    assert [problem["claim"] for problem in found["problems"]] == ["torchvision-0001"]


def test_import_prints_new_statements(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "guide.md"
    path.write_text(DOCUMENT, encoding="utf-8")
    code, out, _ = call(capsys, "import", str(path))
    assert code == 0
    assert out.splitlines() == [
        "+ reference  triton_ascend=3.9.0 cann=10.0.0  (line 1)",
        "2 statements read: 1 new, 0 changed, 0 dropped",
    ]


def test_import_of_a_copy_by_name_sees_dropped_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "copy.md"
    path.write_text(
        "| Triton-Ascend | Triton | Python | CANN | PyTorch |\n|--|--|--|--|--|\n"
        "| 3.2.2 | 3.2.0 | 3.9–3.13 | 9.1.0 | 2.7.1 |\n",
        encoding="utf-8",
    )
    code, found = document(capsys, "import", str(path), "--name", "release_note.md")
    assert code == 0
    assert found["new"] == found["changed"] == 0
    dropped = {d["claim"] for d in found["differences"] if d["kind"] == "dropped"}
    assert "triton_ascend-0002" in dropped
    assert "triton_ascend-0001" not in dropped


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("show", "can"), "no component or claim 'can'"),
        (("show", "cann=nine"), "'nine' is no cann version"),
        (("import", "no/such/file.md"), "cannot read the document"),
        (("diff", "no-such-revision", "."), "neither a folder nor a git revision"),
        ((), "required"),
    ],
)
def test_usage_errors(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], what: str
) -> None:
    code, out, err = call(capsys, *words)
    assert code == 2
    assert what in err
    assert out == ""


def test_import_refuses_a_document_without_tables(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "notes.md"
    path.write_text("nothing here\n", encoding="utf-8")
    code, _, err = call(capsys, "import", str(path))
    assert code == 2
    assert "no table of versions" in err


def test_diff_of_two_folders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "matrices"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("compiled.bin", "recipes"))
    path = folder / "claims" / "torchvision.tsv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(
        "".join([lines[0], lines[1].replace("0.16.0", "0.16.1"), *lines[3:]]), encoding="utf-8"
    )
    code, out, _ = call(capsys, "diff", str(tmp_path), ".")
    assert code == 0
    assert out.splitlines()[-1] == "2 differences"
    assert any(line.startswith("+ torchvision-0002") for line in out.splitlines())
    assert any("0.16.1" in line for line in out.splitlines() if line.startswith("~"))
    assert call(capsys, "diff", ".", ".")[1] == "0 differences\n"
