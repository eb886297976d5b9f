"""Scripts and YAML as recipes, and refusals with a reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from certify.errors import UsageError
from certify.recipes.importers import Imported, import_file, import_shell, import_yaml
from certify.recipes.importers.options import known_options
from certify.recipes.load import recipe_from_dict
from certify.recipes.schema import kind_of
from matrices import files
from tests.recipes import scripts

MCORE = "examples/mcore/small/pretrain_small_4k_ptd.sh"
FSDP2 = "examples/fsdp2/small/pretrain_small_4k_fsdp2_A3.sh"


def edited(checkout: Path, path: str, old: str, new: str) -> Imported:
    file = checkout / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return import_file(file, root=checkout)


def test_a_megatron_script_becomes_a_recipe(checkout: Path) -> None:
    imported = import_shell(checkout / MCORE, checkout)
    assert imported.refused is None
    assert imported.raw is not None
    recipe = recipe_from_dict(imported.raw, MCORE)
    assert (recipe.id, recipe.kind, recipe.backend, recipe.stage) == (
        "pretrain-small-4k-ptd", "script", "mcore", "pretrain",
    )  # fmt: skip
    assert (recipe.cluster.nodes, recipe.cluster.npus_per_node, recipe.cluster.world_size) == (
        2, 8, 16,
    )  # fmt: skip
    assert (recipe.parallel.tp, recipe.parallel.pp, recipe.parallel.derived["dp"]) == (2, 2, 4)
    assert (recipe.batch.global_, recipe.batch.grad_accumulation) == (16, 4)
    assert recipe.batch.tokens_per_step == 16 * 4096
    assert (recipe.training.lr, recipe.training.dtype) == (1e-4, "bf16")
    assert recipe.model["tie_embeddings"] is True
    assert recipe.model["kv_heads"] == 4
    assert recipe.raw["env"] == {"CUDA_DEVICE_MAX_CONNECTIONS": 1, "HCCL_CONNECT_TIMEOUT": 1800}
    assert recipe.raw["product_hint"] == "A2"
    assert "data-path" not in recipe.raw.get("other_options", {})
    assert imported.origin("training.lr").line == scripts.MEGATRON.split("\n").index(
        "    --lr 1.0e-4 \\"
    ) + 1  # fmt: skip


def test_an_fsdp2_script_is_its_yaml_overridden_by_its_command_line(checkout: Path) -> None:
    imported = import_shell(checkout / FSDP2, checkout)
    assert imported.refused is None
    assert imported.raw is not None
    recipe = recipe_from_dict(imported.raw, FSDP2)
    assert (recipe.backend, recipe.product, recipe.source.companion_yaml) == (
        "fsdp2", "A3", FSDP2.replace(".sh", ".yaml"),
    )  # fmt: skip
    assert (recipe.parallel.fsdp_size, recipe.parallel.ep, recipe.parallel.ep_fsdp_size) == (
        16, 4, 4,
    )  # fmt: skip
    assert (recipe.batch.micro, recipe.batch.global_) == (2, 32)
    assert (recipe.training.seq_length, recipe.training.lr) == (4096, 1e-5)
    assert recipe.raw["env"]["TRAINING_BACKEND"] == "mindspeed_fsdp"
    assert recipe.raw["optimisations"] == ["moe_grouped_gemm"]
    assert imported.origin("training.lr").file.endswith(".yaml")
    assert imported.origin("parallel.ep").file.endswith(".sh")


def test_a_yaml_with_overrides(checkout: Path) -> None:
    imported = import_yaml(
        checkout / FSDP2.replace(".sh", ".yaml"),
        ("parallel.ep_size=8", "--training.lr=2e-5", "parallel.fsdp_size=8"),
        checkout,
    )
    assert imported.raw is not None
    assert imported.raw["parallel"]["ep"] == 8
    assert imported.raw["training"]["lr"] == 2e-5
    assert imported.origin("parallel.ep").file == "<command line>"


@pytest.mark.parametrize(
    ("old", "new", "rule", "found"),
    [
        ("cutoff_len: 4096", "cutof_len: 4096", "F05", "data.cutof_len=4096"),
        ("ep_dispatcher: eager", "ep_dispatcher: fast", "F06", "eager, fused, mc2"),
        ("max_steps: 2000", "max_steps: soon", "F16", "training.max_steps=soon, type int"),
        ("max_steps: 2000", "max_steps: [1]", "F16", "type int"),
        ("stage: pt", "stage: pt\n  stage: pt", "F17", "training.stage is given twice"),
        ("model:\n", "note: 1\nmodel:\n", "F05", "note is no section"),
    ],
)
def test_a_yaml_is_checked_against_the_arguments(
    checkout: Path, old: str, new: str, rule: str, found: str
) -> None:
    imported = edited(checkout, FSDP2.replace(".sh", ".yaml"), old, new)
    problems = [(one.rule, one.found) for one in imported.problems]
    assert any(r == rule and found in f for r, f in problems), problems
    assert all(one.origin.line > 0 for one in imported.problems)


def test_the_command_line_that_overrides_the_yaml_is_noted(checkout: Path) -> None:
    imported = edited(
        checkout, FSDP2, "    --training.output_dir", "    --training.lr 3e-5 --training.output_dir"
    )
    assert imported.raw is not None
    assert imported.raw["training"]["lr"] == 3e-5
    assert [one.found for one in imported.problems if one.rule == "F08"] == [
        "training.lr: YAML 1e-05, command line 3e-5"
    ]


def test_a_missing_yaml_is_noted_and_the_scripts_own_is_read(checkout: Path) -> None:
    imported = edited(checkout, FSDP2, "pretrain_small_4k_fsdp2_A3.yaml", "pretrain_small.yaml")
    assert imported.raw is not None
    assert imported.raw["source"]["yaml_missing"] == "examples/fsdp2/small/pretrain_small.yaml"
    assert imported.raw["training"]["seq_length"] == 4096
    assert [one.rule for one in imported.problems] == ["F15"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("python convert_ckpt_v2.py --load x", "it converts a checkpoint"),
        ("python ./preprocess_data.py --input x", "it prepares data"),
        ("torchrun $ARGS inference.py", "it generates text"),
        ("torchrun evaluation.py", "it evaluates a model"),
        ("python rlhf_gpt.py", "MindSpeed-RL"),
        ("export A=1", "it starts no training"),
        ("torchrun --nnodes 1 postrain_gpt.py", "posttrain_gpt.py does"),
        ("python mine.py", "which is no training entry of upstream"),
        ("A=x\n" + "A=$A$A\n" * 60, "grows beyond any bound"),
    ],
)
def test_what_is_no_training_is_refused_with_a_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "x.sh").write_text(text)
    refused = import_file(tmp_path / "x.sh").refused
    assert refused is not None
    assert reason in refused


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_bytes(b"torchrun\0")
    assert "not a text file" in (import_file(tmp_path / "x.sh").refused or "")
    os.mkfifo(tmp_path / "pipe.sh")
    assert "not a regular file" in (import_file(tmp_path / "pipe.sh").refused or "")
    with pytest.raises(UsageError):
        import_file(tmp_path / "x.py")


def test_a_script_cannot_source_what_lies_outside_the_checkout(checkout: Path) -> None:
    (checkout.parent / "outside.sh").write_text("export SECRET=1\n")
    link = checkout / "examples/fsdp2/link.sh"
    link.symlink_to(checkout.parent / "outside.sh")
    for name in ("../outside.sh", str(checkout.parent / "outside.sh"), "examples/fsdp2/link.sh"):
        (checkout / FSDP2).write_text(
            scripts.FSDP2.replace("source examples/fsdp2/env_config.sh", f"source {name}")
        )
        imported = import_shell(checkout / FSDP2, checkout)
        assert imported.raw is not None
        assert "SECRET" not in imported.raw["env"]


YAML_BOMBS = {
    "aliases": "model: &a {b: 1}\ndata: *a\n",
    "tag": '!!python/object/apply:os.system ["touch /nonexistent/x"]\n',
    "deep flow": "model: " + "[" * 60000,
    "deep block": "".join(" " * i + "a:\n" for i in range(300)),
    "many keys": "model:\n" + "".join(f"  k{i}: 1\n" for i in range(6000)),
    "big number": "parallel:\n  fsdp_size: " + "9" * 6000,
    "date": "model:\n  template: 2001-99-99\n",
    "not a mapping": "- 1\n",
    "empty": "",
    "large": "a" * 100000,
}


@pytest.mark.parametrize("name", YAML_BOMBS)
def test_a_hostile_yaml_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.yaml").write_text(YAML_BOMBS[name])
    assert import_yaml(tmp_path / "x.yaml").refused


def test_the_tables_of_options_and_keys_fit_each_other() -> None:
    known = known_options()
    keys = files.read_tsv("mcore_keys.tsv")
    assert {row["option"] for row in keys} <= set(known)
    for row in keys:
        if row["key"] not in ("optimisations", "optimisation_values"):
            assert kind_of(row["key"])
            assert (known[row["option"]].words == "0") == bool(row["value"]), row
    for row in files.read_tsv("option_conflicts.tsv"):
        assert {row["option"], row["other"]} <= set(known)
    for row in files.read_tsv("fsdp2_arguments.tsv"):
        for key in filter(None, row["key"].split(";")):
            assert key in ("optimisations", "optimisation_values") or kind_of(key)
    assert len(files.read_tsv("fsdp2_arguments.tsv")) == 157
