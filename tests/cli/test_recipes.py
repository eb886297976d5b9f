"""``certify recipes``: whole output of the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from certify.cli import main
from tests.recipes.conftest import checkout  # noqa: F401  (a fixture)
from tests.recipes.importers.test_import import FSDP2, MCORE

LIST_FSDP2 = """\
id                               category  seq  cluster  backend  status  product  retired
qwen3-32b-4k-fsdp2               dense     4k   1x16     fsdp2    Test    A3
qwen3-30b-a3b-4k-fsdp2           sparse    4k   1x16     fsdp2    Test    A3
qwen3-235b-a22b-4k-fsdp2         sparse    4k   16x16    fsdp2    Test    A3
qwen3-next-80b-a3b-16k-fsdp2     sparse    16k  4x16     fsdp2    Test    A3
step3p5-flash-moe-196b-4k-fsdp2  sparse    4k   12x16    fsdp2    Test    A3
gpt-oss-moe-20b-4k-fsdp2         sparse    4k   1x16     fsdp2    Test    A3
minimax-m2p7-moe-229b-4k-fsdp2   sparse    4k   8x16     fsdp2    Test    A3
7 of 143 published rows
"""


def certify(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["recipes", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_by_backend(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No branch these rows were read from is out of maintenance, whatever the day.
    monkeypatch.setattr("certify.cli.recipes._retired", lambda row: "")
    assert certify(capsys, "list", "--backend", "fsdp2") == (0, LIST_FSDP2, "")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 143),
        (("--model", "qwen3"), 14),
        (("--model", "Qwen3-Next"), 2),
        (("--model", "0.6B"), 1),
        (("--category", "ssm"), 4),
        (("--cluster", "16x16"), 2),
        (("--status", "Test", "--backend", "mcore"), 27),
        (("--product", "A3"), 25),
        (("--contributor", "openmind"), 1),
        (("--backend", "legacy", "--status", "Test"), 1),
        (("--kind", "accuracy"), 22),
        (("--kind", "performance", "--product", "A5"), 40),
    ],
)
def test_list_filters(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], count: int
) -> None:
    code, out, _ = certify(capsys, "list", *words, "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "certify.recipes/1")
    assert len(document["recipes"]) == count


def test_list_json_has_the_published_fields(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = certify(capsys, "list", "--model", "qwen3-235b", "--backend", "fsdp2", "--json")
    row = json.loads(out)["recipes"][0]
    wanted = {
        "id": "qwen3-235b-a22b-4k-fsdp2", "row": 110, "category": "sparse", "model": "Qwen3",
        "size": "235B-A22B", "seq": "4k", "seq_length": 4096, "backend": "fsdp2",
        "cluster": "16x16", "nodes": 16, "npus_per_node": 16, "world_size": 256, "version": None,
        "contributor": "Ascend", "status": "Test", "product": "A3", "retired": None,
    }  # fmt: skip
    assert {key: row[key] for key in wanted} == wanted


def test_show_says_what_was_chosen_and_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = certify(capsys, "show", "mamba3", "--backend", "fsdp2")
    assert code == 0
    assert out.startswith("mamba3-4k-mcore is listed as Mcore, but its script runs fsdp2\n")
    assert "differs    seq_length: list says 4k, script says 2048" in out
    assert "note       tokenizer: no vocabulary is published: bring a tokenizer" in out
    assert "variant    mimo" in out


def test_show_json_joins_row_recipe_and_model(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = certify(capsys, "show", "qwen3-235b", "--json")
    document = json.loads(out)
    assert document["published"]["id"] == "qwen3-235b-a22b-4k-mcore"
    assert document["recipe"]["parallel"]["noop_layers"] == "94,95"
    assert document["model_config"]["config"]["num_hidden_layers"] == 94
    assert "took backend mcore" in document["chosen"]


def test_show_of_a_script_under_poc(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = certify(capsys, "show", "qwen3-235b-8p-perf-qwen3-7p2b-8k-bf16-a5", "--json")
    recipe = json.loads(out)["recipe"]
    assert (code, recipe["kind"], recipe["scale"]["name"], recipe["scale"]["devices"]) == (
        0, "performance", "reduced", 8,
    )  # fmt: skip
    assert recipe["moe"]["fixed_routing"] is True


def test_an_unknown_name_is_a_usage_error_with_near_matches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = certify(capsys, "show", "qwen3-325b", "--json")
    error = json.loads(out)["error"]
    assert (code, error["exit_code"]) == (2, 2)
    assert "qwen3-235b" in error["hint"]
    assert err.startswith("error: no recipe named 'qwen3-325b'\n")


def test_lint_of_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = certify(capsys, "lint", "internlm2-20b-32k", "--severity", "error")
    assert code == 1
    assert out == (
        f"matrices/recipes/internlm2-20b-32k-mcore.toml:{_line('internlm2-20b-32k-mcore')}: error"
        " N04 published cluster and script differ: published 1x8, script 2x8\n"
        "1 linted: 1 error, 2 warning, 1 info\n"
    )


def _line(recipe: str) -> int:
    from matrices import files

    return files.read_text(f"recipes/{recipe}.toml").splitlines().index("[[differences]]") + 1


def test_lint_of_a_folder_and_of_a_clean_script(
    capsys: pytest.CaptureFixture[str],
    checkout: Path,  # noqa: F811
) -> None:
    code, out, _ = certify(capsys, "lint", str(checkout / "examples"))
    assert (code, out) == (0, "2 linted: 0 error, 0 warning, 0 info\n")
    file = checkout / MCORE
    file.write_text(file.read_text().replace("TP=2", "TP=3"))
    code, out, _ = certify(capsys, "lint", str(file), "--format", "sarif")
    results = json.loads(out)["runs"][0]["results"]
    assert code == 1
    assert "P01" in {result["ruleId"] for result in results}
    code, out, _ = certify(capsys, "lint", str(file), "--json")
    assert json.loads(out)["findings"][0]["file"] == MCORE


def test_lint_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = certify(capsys, "lint", "--rules")
    assert code == 0
    assert "P01  error    world size is not divisible by TP x PP x CP\n" in out


def test_import_prints_the_rate_and_writes_recipes(
    capsys: pytest.CaptureFixture[str],
    checkout: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    (checkout / "examples/mcore/small/ckpt_convert.sh").write_text("python convert_ckpt_v2.py\n")
    out_folder = tmp_path / "out"
    code, out, _ = certify(capsys, "import", str(checkout / "examples"), "--out", str(out_folder))
    assert code == 0
    assert "ckpt_convert.sh: refused: it converts a checkpoint" in out
    assert "env_config.sh: refused: it starts no training" in out
    assert out.endswith("3 imported, 2 refused of 5 files (100.0% of the 3 that train)\n")
    assert len(list(out_folder.glob("*.toml"))) == 3
    code, out, _ = certify(capsys, "import", str(checkout / FSDP2), "--json")
    assert json.loads(out)["imported"][0]["recipe"]["parallel"]["fsdp_size"] == 16


def test_import_of_a_refused_file_exits_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x.sh").write_text("echo hello\n")
    code, out, _ = certify(capsys, "import", str(tmp_path / "x.sh"))
    assert code == 1
    assert "refused: it starts no training" in out
    assert certify(capsys, "import", str(tmp_path / "gone.sh"))[0] == 2
    os.mkfifo(tmp_path / "pipe.sh")
    code, out, _ = certify(capsys, "import", str(tmp_path / "pipe.sh"))
    assert code == 1
    assert "refused: not a regular file" in out


def test_import_of_a_support_list_says_what_changed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from tests.recipes.importers.test_support_list import ROWS, ZH

    path = tmp_path / "supported_models.md"
    path.write_text(ZH + ROWS.format(k="k", c="c", l="[", r="]"))
    code, out, _ = certify(capsys, "import", str(path))
    assert code == 0
    assert "qwen3-1p7b-4k-mcore: status was 'Pass', is 'Test'\n" in out
    assert out.endswith("since our list was read: 1 changed, 140 removed\n")


def test_without_the_extra_import_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str],
    checkout: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    code, _, err = certify(capsys, "import", str(checkout / MCORE))
    assert code == 2
    assert 'pip install "ascend-certify[import]"' in err


def test_list_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from certify.cli import main\n"
        "main(['recipes', 'list'])\n"
        "heavy = ('torch', 'numpy', 'yaml', 'tree_sitter', 'certify.plan', 'difflib')\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"
