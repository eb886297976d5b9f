"""A YAML as the configuration of a campaign, from the command line to the request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from certify.__main__ import main
from certify.campaign import configured
from certify.cli.run import words_of
from certify.recipes.scale import scale_down
from tests.recipes.configuration.quick_start import PRETRAIN, TUNE, write
from tests.recipes.test_scale import TINY

if TYPE_CHECKING:
    from pathlib import Path

BUILT = {
    "class": "Qwen3ForCausalLM",
    "stock": True,
    "own_files": 0,
    "own_lines": 0,
    "fsdp_modules": ["model.layers.{*}", "model.embed_tokens", "lm_head"],
    "ep_modules": [],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CERTIFY_HOME", str(tmp_path / "home"))


class Words:
    """The command line as far as a configuration looks at it."""

    def __init__(self, recipe: Path, **options: Any) -> None:
        self.recipe, self.backend, self.data = str(recipe), None, None
        self.__dict__.update(options)


def made(path: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> configured.Configured:
    monkeypatch.setattr(configured, "described", lambda config, where: BUILT)
    arguments: Any = Words(path)
    return configured.from_configuration(arguments, overrides)


def test_the_values_of_the_yaml_reach_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("training.weight_decay=0.05", "training.lr_scheduler_type=linear", "training.seed=9")
    found = made(write(tmp_path), monkeypatch, *words)
    scaled = scale_down(found.recipe, found.public, TINY)
    assert scaled.training["weight_decay"] == 0.05
    assert (scaled.training["schedule"], scaled.training["seed"]) == ("linear", 9)
    assert scaled.training["beta2"] == 0.95
    # 3% of 200 steps is below the scale's 5%.
    assert scaled.training["warmup_steps"] == 10
    assert scaled.training["min_lr"] == pytest.approx(scaled.training["lr"] * 0.1)
    assert scaled.parallel["recompute_modules"] == ("model.layers.{*}",)
    assert scaled.parallel["reshard_after_forward"] is True
    assert found.datasets.paths == (str(tmp_path / "texts" / "stories.jsonl"),)
    assert found.recipe["configuration"]["training.seed"]["value"] == 9
    off = made(write(tmp_path), monkeypatch, "parallel.recompute=False")
    assert scale_down(off.recipe, off.public, TINY).parallel["recompute_modules"] == ()


@pytest.mark.torch
def test_a_dry_run_of_the_quick_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, PRETRAIN + "optimization:\n  use_flash_attn: True\n")
    command = ["run", str(path), "--dry-run", "training.lr=3e-5", "--backend", "fsdp2"]
    assert main([*command, "--training.weight_decay", "0.02"]) == 0
    said = capsys.readouterr().out
    assert "not in force on cpu (NPU only): optimization.use_flash_attn" in said
    lines = {line.split()[0]: line for line in said.splitlines() if "->" in line}
    assert "3e-05" in lines["training.lr"]
    assert "0.02 -> 0.02" in lines["training.weight_decay"]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("text", "words", "code", "message"),
    [
        (PRETRAIN.replace("./weights/small/", "./weights/none/"), (), 2, "no such model folder"),
        (PRETRAIN.replace("lr: 1e-05", "lrr: 1e-05"), (), 2, "unknown key 'training.lrr'"),
        (PRETRAIN, ("--backend", "mcore"), 2, "with the backend mcore"),
        (PRETRAIN, ("model.tokenizer_name_or_path=none",), 2, "no such tokenizer folder"),
        (PRETRAIN, ("word",), 2, "'word' overrides nothing"),
        (TUNE, ("data.data_manager_type=lf",), 3, "stage sft cannot be run"),
    ],
)
def test_a_wrong_configuration_is_one_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    path = write(tmp_path, text)
    assert main(["run", str(path), *words, "--dry-run", "--json"]) == code
    out, err = capsys.readouterr()
    assert message in json.loads(out)["error"]["what"]
    assert err.startswith("error: ")


def test_overrides_are_for_a_yaml_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "qwen3-8b", "training.lr=1", "--backend", "fsdp2", "--dry-run"]) == 2
    assert "overrides nothing" in capsys.readouterr().err


def test_upstreams_form_of_an_override() -> None:
    words = ["c.yaml", "--training.lr", "2e-5", "--model.resize_vocab", "--json", "a.b=c"]
    assert words_of(words) == [
        "c.yaml",
        "training.lr=2e-5",
        "model.resize_vocab=True",
        "--json",
        "a.b=c",
    ]
    assert words_of(["--parallel.fsdp_modules", "a", "b"]) == ["parallel.fsdp_modules=a,b"]
    assert words_of(["--training.lr=1", "--out", "x.y"]) == ["training.lr=1", "--out", "x.y"]
