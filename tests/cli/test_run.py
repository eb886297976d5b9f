"""`certify run` before anything is trained: every wrong word has one clear answer."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from certify.cli import main

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
RECIPE = ("run", "qwen3-235b", "--backend", "fsdp2")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTIFY_HOME", str(tmp_path / "home"))


def test_phases_are_listed_with_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--list-phases", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "certify.run/1"
    names = [phase["name"] for phase in document["phases"]]
    assert names[0] == "prepare"
    assert names[-1] == "report"
    assert document["phases"][names.index("compare")]["needs"] == ["reference", "candidate"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("run",), "no recipe named"),
        (("run", "qwen3-253b", "--backend", "fsdp2"), "no recipe named 'qwen3-253b'"),
        (("run", "mamba2-2p7b", "--backend", "mcore"), "which this version cannot run"),
        (("run", "qwen3-235b", "--backend", "fsdp3"), "invalid choice: 'fsdp3'"),
        ((*RECIPE, "--phases", "jugde"), "unknown phase 'jugde'"),
        ((*RECIPE, "--data", "/no/such/file.txt"), "no such file or folder"),
        ((*RECIPE, "--tokenizer", "/no/such"), "no such file or folder"),
        ((*RECIPE, "--frobnicate"), "unrecognized arguments: --frobnicate"),
    ],
)
def test_usage_errors(
    words: tuple[str, ...], found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert found in err


def test_unknown_recipe_lists_near_matches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "qwen3-253b", "--backend", "fsdp2"]) == 2
    assert "qwen3-235b" in capsys.readouterr().err


def test_a_scale_that_cannot_be_run_cannot_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RECIPE, "--scale", "full", "--json"]) == 3
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["schema"] == "certify.run/1"
    assert document["error"]["exit_code"] == 3
    assert "hint: certify run RECIPE --scale tiny" in err


@needs_torch
def test_dry_run_shows_everything_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RECIPE, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert 'a pass says "mechanics verified (tiny, cpu)"' in text
    assert "moves no published status" in text
    assert main([*RECIPE, "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    scaling = {c["key"]: (c["published"], c["scaled"]) for c in document["scaling"]}
    assert scaling["model.num_experts"] == (128, 8)
    assert scaling["model.rope_theta"] == (1000000.0, 1000000.0)
    assert document["training"]["aux_loss_coef"] == 0.001
    assert document["parallel"]["ep_size"] == 2
    assert not (tmp_path / "home").exists()


@needs_torch
def test_a_row_of_megatron_core_has_transformers_as_its_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "qwen3-235b", "--backend", "mcore", "--dry-run", "--home", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["recipe"], document["backend"]) == ("qwen3-235b-a22b-4k-mcore", "mcore")
    assert document["reference"] == "plain"
    assert document["world_size"] == 4
    layout = {key: document["parallel"][key] for key in ("pp_size", "vpp_size", "ep_size")}
    assert layout == {"pp_size": 2, "vpp_size": 2, "ep_size": 2}
    # The claim on a class that both sides share is for the other backend.
    assert main(words) == 0
    assert "a fault inside the class cannot show" not in capsys.readouterr().out


@needs_torch
def test_unknown_fault_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RECIPE, "--inject", "lr-of-by-one"]) == 2
    err = capsys.readouterr().err
    assert "did you mean lr-off-by-one?" in err


@needs_torch
@pytest.mark.parametrize(
    ("recipe", "backend", "fault", "why"),
    [
        ("qwen3-235b", "fsdp2", "tensor-parallel-unset", "the fsdp2 backend"),
        ("qwen3-32b", "fsdp2", "router-double-softmax", "the model has no experts"),
        ("qwen3-0p6b", "mcore", "tensor-parallel-unset", "the layout has no tensor parallel"),
        ("qwen3-0p6b", "mcore", "reference-weight-1pct", "the plain backend"),
    ],
)
def test_a_fault_that_would_change_nothing_is_refused(
    recipe: str,
    backend: str,
    fault: str,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["run", recipe, "--backend", backend, "--dry-run", "--home", str(tmp_path)]
    assert main([*words, "--inject", fault]) == 2
    err = capsys.readouterr().err
    assert why in err
    listed = next(line for line in err.splitlines() if "expected:" in line)
    assert "lr-off-by-one" in listed
    assert fault not in listed
    assert main([*words, "--inject", "lr-off-by-one"]) == 0


@needs_torch
def test_a_folder_with_something_else_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    assert main([*RECIPE, "--out", str(out)]) == 2
    assert "holds no campaign" in capsys.readouterr().err
    assert [p.name for p in out.iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_the_extra_run_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RECIPE]) == 2
    assert 'pip install "ascend-certify[run]"' in capsys.readouterr().err


def test_the_top_of_the_command_line_is_fast_and_light() -> None:
    code = (
        "import sys; from certify.cli import main; main(['--help']);"
        "heavy = {'torch','numpy','sqlalchemy','jinja2','matplotlib','importlib.metadata'};"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, check=False)
    assert done.returncode == 0
