"""A recipe from a model folder."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

import pytest

from certify.__main__ import main
from certify.campaign.reference_side import MCORE_FAMILIES, PLAIN_CLAIM, reference_backend
from certify.campaign.resolve import resolve_request
from certify.errors import CannotJudgeError, CertifyError, UsageError
from certify.recipes.folder import read_config, recipe_id, recipe_of, upstream_class
from certify.recipes.load import load_model
from certify.recipes.scale import scale_down
from tests.recipes.test_scale import TINY

if TYPE_CHECKING:
    from pathlib import Path

BUILT = {
    "class": "DeepseekV3ForCausalLM",
    "stock": True,
    "own_files": 0,
    "own_lines": 0,
    "fsdp_modules": ["model.layers.{*}", "model.embed_tokens", "lm_head"],
    "ep_modules": ["model.layers.{*}.mlp.experts"],
}


def folder_with(tmp_path: Path, config: Any) -> Path:
    folder = tmp_path / "My_Model.v2"
    folder.mkdir()
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text)
    return folder


def public(key: str) -> dict[str, Any]:
    return dict(load_model(key).config)


def test_blocks_experts_template_and_cost_come_from_the_folder(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, public("deepseek-v3-671b"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{x}}"}))
    config = read_config(folder)
    recipe, cost = recipe_of(folder, config, BUILT)
    assert recipe["id"] == recipe_id(folder) == "folder-my-model-v2"
    assert recipe["data"]["template"] == "chat_template of tokenizer_config.json"
    assert "0 files and 0 lines" in cost.said()
    assert "0 weight-conversion steps" in cost.said()
    assert recipe["adaptation"]["lines"] == recipe["adaptation"]["conversions"] == 0
    scaled = scale_down(recipe, config, TINY)
    assert scaled.parallel["ep_size"] == 2
    assert scaled.parallel["ep_modules"] == ("model.layers.{*}.mlp.experts",)
    assert scaled.hf_config["n_group"] == 4
    dense, _ = recipe_of(folder, config, {**BUILT, "ep_modules": []})
    assert scale_down(dense, config, TINY).parallel["ep_size"] == 1


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        ("{", UsageError, r"unreadable config\.json"),
        ({"hidden_size": 3}, UsageError, "without model_type"),
        ({"model_type": "x_vl", "text_config": {}}, UsageError, "made of several models"),
        ({"model_type": "alien_lm"}, CannotJudgeError, "no rule scales model type 'alien_lm'"),
        ({"model_type": "llama", "hidden_size": "a"}, UsageError, "hidden_size is 'a'"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(
    tmp_path: Path, config: Any, kind: type[CertifyError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        read_config(folder_with(tmp_path, config))


def test_an_empty_folder_and_a_wrong_backend_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        read_config(tmp_path)
    words = argparse.Namespace(recipe=str(tmp_path), backend="mcore", scale="auto")
    with pytest.raises(UsageError, match="model folder with the backend mcore"):
        resolve_request(words, [])
    words = argparse.Namespace(recipe="./absent", backend=None, scale="auto")
    with pytest.raises(UsageError, match="no such folder"):
        resolve_request(words, [])


def test_the_reference_is_megatron_where_a_mapping_exists() -> None:
    for key, backend in (("qwen3-30b-a3b", "mcore"), ("llama2-7b", "mcore"),
                         ("deepseek-v3-671b", "plain"), ("gpt-oss-moe-20b", "plain")):  # fmt: skip
        assert reference_backend(public(key)) == backend
    # Megatron-Core has no auxiliary loss that pools the layers; a dense model has none at all.
    assert reference_backend(public("qwen3-30b-a3b"), "fsdp2", "pooled") == "plain"
    assert reference_backend(public("llama2-7b"), "fsdp2", "pooled") == "mcore"
    assert reference_backend(public("llama2-7b"), "mcore") == "plain"
    scaled = {**public("qwen2-7b"), "rope_scaling": {"rope_type": "yarn"}}
    assert reference_backend(scaled) == "plain"
    assert "cannot show" in PLAIN_CLAIM


@pytest.mark.torch
def test_the_table_of_mappings_is_that_of_the_backend() -> None:
    families = pytest.importorskip("runner.backends.mcore.families")
    assert set(MCORE_FAMILIES) <= set(families.FAMILIES)


def test_upstreams_class_and_the_stock_one_are_both_said() -> None:
    said = upstream_class({"model": {"model_id": "qwen3_moe"}}, {"model_type": "qwen3_moe"})
    assert said is not None
    assert "MindSpeed-LLM" in said
    assert upstream_class({"model": {}}, {}) is None


@pytest.mark.torch
def test_a_dry_run_of_a_folder_says_what_it_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERTIFY_HOME", str(tmp_path / "home"))
    small = {**public("minimax-m2p7-moe-229b"), "num_hidden_layers": 4}
    folder = folder_with(tmp_path, small)
    command = ["run", str(folder), "--backend", "fsdp2", "--dry-run", "--json"]
    assert main(command) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["recipe"] == "folder-my-model-v2"
    assert body["reference"] == "plain"
    assert body["adaptation"] == {
        "model_class": "MiniMaxM2ForCausalLM",
        "stock": True,
        "files": 0,
        "lines": 0,
        "conversions": 0,
    }
    assert body["parallel"]["fsdp_modules"][0] == "model.layers.{*}"
    bad = {**small, "hidden_act": "no-such-function"}
    (folder / "config.json").write_text(json.dumps(bad))
    assert main(command[:-1]) == 2
    assert "no-such-function" in capsys.readouterr().err
