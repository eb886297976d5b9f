"""The published rows and their recipes as data."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

import matrices
from certify.errors import UsageError
from certify.recipes.load import (
    branch_of,
    load_model,
    load_recipe,
    load_support_list,
    model_keys,
    recipe_from_dict,
)
from certify.recipes.models import WHOLE, absent
from certify.recipes.poc import list_scripts
from certify.recipes.retired import legacy_error, living_rows
from certify.recipes.rows import Row

TODAY = date(2026, 11, 30)
ROWS = load_support_list()


def test_the_list_has_143_rows_in_the_published_order() -> None:
    assert [row.row for row in ROWS] == list(range(143))
    assert len({row.id for row in ROWS}) == 143
    assert Counter(row.backend for row in ROWS) == {"legacy": 18, "mcore": 118, "fsdp2": 7}
    assert Counter(row.category for row in ROWS) == {"dense": 107, "sparse": 32, "ssm": 4}
    assert Counter(row.status for row in ROWS) == {"Pass": 108, "Test": 35}


def test_ids_are_made_of_what_is_published() -> None:
    from certify.recipes.importers.support_list import row_key

    for row in ROWS:
        key = row_key(row.model, row.size, row.seq, row.backend_published)
        assert key == row.id.replace("-", "")


def test_published_fields_of_one_row_stand_as_published() -> None:
    row = next(row for row in ROWS if row.id == "qwen3-235b-a22b-4k-fsdp2")
    assert (row.model, row.size, row.seq, row.backend_published) == (
        "Qwen3", "235B-A22B", "4k", "FSDP2",
    )  # fmt: skip
    assert (row.cluster, row.version, row.contributor, row.status) == (
        "16x16", "", "Ascend", "Test",
    )  # fmt: skip
    assert row.weights == "https://huggingface.co/Qwen/Qwen3-235B-A22B"
    assert row.script_dir == "examples/fsdp2/qwen3_moe"
    assert (row.world_size, row.seq_length, row.script_branch) == (256, 4096, "master")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_has_a_recipe_that_fits_the_schema(row) -> None:  # type: ignore[no-untyped-def]
    recipe = load_recipe(row.id)
    assert recipe.row is row
    assert (recipe.id, recipe.model_key) == (row.id, row.model_key)
    assert all((recipe.source.path, recipe.source.commit, recipe.source.branch))
    assert recipe.cluster.world_size == recipe.cluster.nodes * recipe.cluster.npus_per_node  # type: ignore[operator]
    assert all((recipe.training.seq_length, recipe.training.lr, recipe.batch.global_))
    cluster = f"{recipe.cluster.nodes}x{recipe.cluster.npus_per_node}"
    differing = {one["field"] for one in recipe.differences}
    assert ("cluster" in differing) == (cluster != row.cluster)
    assert ("seq_length" in differing) == (recipe.training.seq_length != row.seq_length)
    assert ("backend" in differing) == (recipe.backend != row.backend)


def test_differences_between_list_and_script_are_all_recorded() -> None:
    counts = Counter(one["rule"] for row in ROWS for one in load_recipe(row.id).differences)
    assert counts == {"N04": 15, "N05": 8, "N06": 1, "N07": 19, "N08": 8, "N10": 25}


def test_typed_access_reads_what_the_script_states() -> None:
    recipe = load_recipe("qwen3-235b-a22b-4k-fsdp2")
    assert recipe.parallel.fsdp_modules == ("model.layers.{*}", "model.embed_tokens", "lm_head")
    assert (recipe.parallel.ep, recipe.parallel.fsdp_size, recipe.parallel.tp) == (2, 256, None)
    assert (recipe.batch.micro, recipe.batch.global_) == (4, 1024)
    assert recipe.training.beta2 == 0.95
    assert recipe.raw["parallel"]["recompute"]["enabled"] is True


def test_the_published_script_is_the_only_source_of_a_stated_value() -> None:
    recipe = load_recipe("qwen3-235b-a22b-4k-fsdp2")
    assert recipe.training.router_aux_loss_coef is None
    assert "router_aux_loss_coef" not in recipe.raw["training"]


def test_branches_out_of_maintenance_are_retired_with_their_date() -> None:
    retired = Counter(branch_of(row).retired_on(TODAY) for row in ROWS)
    assert retired["2025-09-30"] == 19
    assert retired["2026-03-30"] == 49
    assert retired["2026-06-30"] == 30
    assert branch_of(ROWS[0]).retired_on(date(2025, 9, 1)) is None


def test_a_legacy_row_names_the_last_version_and_living_rows() -> None:
    legacy = [row for row in ROWS if row.backend == "legacy"]
    error = legacy_error(legacy[0], TODAY)
    assert "2.0.0 is the last version" in error.what
    for row in legacy:
        for other in living_rows(row, TODAY):
            assert other.backend != "legacy"
            assert branch_of(other).retired_on(TODAY) is None


def test_state_space_rows_say_what_is_not_published() -> None:
    mamba2 = [row.id for row in ROWS if row.model.startswith("Mamba2")]
    assert len(mamba2) == 3
    for recipe_id in mamba2:
        notes = load_recipe(recipe_id).raw["notes"]
        assert any(note["about"] == "tokenizer" for note in notes)
    mamba3 = load_recipe("mamba3-4k-mcore")
    assert (mamba3.row.backend, mamba3.backend) == ("mcore", "fsdp2")  # type: ignore[union-attr]
    variants = {one["name"]: one["settings"]["is_mimo"] for one in mamba3.raw["config_variants"]}
    assert variants == {"siso": False, "mimo": True}


def test_fine_tuning_scripts_are_variants_of_their_row() -> None:
    variants = load_recipe("qwen3-235b-a22b-4k-mcore").raw["variants"]
    assert "tune_qwen3_235b_a22b_32K_lora_pack_A2_ptd.sh" in variants["lora"]


def test_performance_and_accuracy_scripts_are_recipes_of_their_own_kind() -> None:
    scripts = list_scripts()
    assert Counter(script.kind for script in scripts) == {"performance": 99, "accuracy": 22}
    ids = {row.id for row in ROWS}
    for script in scripts:
        recipe = load_recipe(script.id)
        assert recipe.kind == script.kind
        assert script.row == "" or script.row in ids
        fixed = (recipe.moe or {}).get("fixed_routing", False)
        assert fixed == (script.fixed_routing == "yes")
    reduced = {script.scale for script in scripts if "_8p_" in script.path}
    assert reduced == {"reduced-8"}
    assert {script.scale for script in scripts if "_64p_" in script.path} == {"reduced-64"}


@pytest.mark.parametrize("key", model_keys())
def test_a_models_configuration_agrees_with_its_script(key: str) -> None:
    model = load_model(key)
    assert model.url.startswith("https://")
    pairs = {"hidden": "hidden_size", "heads": "num_attention_heads", "head_dim": "head_dim"}
    for row in ROWS:
        if row.model_key != key:
            continue
        stated = load_recipe(row.id).model
        if model.config.get("kv_lora_rank"):  # the published head_dim is that of another part
            pairs.pop("head_dim", None)
        for mine, theirs in pairs.items():
            if stated.get(mine) is not None and model.config.get(theirs) is not None:
                assert stated[mine] == model.config[theirs], (row.id, mine)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_has_a_model_configuration_or_the_reason_why_not(row: Row) -> None:
    known, unstated = row.model_key in model_keys(), absent(row.model_key)
    assert known != (unstated is not None and unstated.missing == WHOLE)
    if not known:
        with pytest.raises(UsageError, match="no public configuration") as caught:
            load_model(row.model_key)
        assert unstated is not None
        assert unstated.reason in caught.value.what
        return
    model = load_model(row.model_key)
    recipe = load_recipe(row.id)
    vocab = model.config.get("vocab_size") or model.config.get("padded_vocab_size")
    assert vocab or (unstated is not None and unstated.missing == "vocab_size")
    assert model.via
    # What is said to be the script's is what the script states.
    for mine, theirs in (("hidden", "hidden_size"), ("layers", "num_hidden_layers")):
        if theirs in model.from_script and recipe.model_key == row.model_key:
            assert recipe.model[mine] == model.config[theirs]


def test_a_null_of_the_published_file_is_none() -> None:
    config = load_model("deepseek-v2-lite-16b").config
    assert config["q_lora_rank"] is None
    assert (config["kv_lora_rank"], config["n_routed_experts"]) == (512, 64)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("baichuan2-13b", {"vocab_size": 125696, "num_hidden_layers": 40}),
        ("bloom-176b", {"vocab_size": 250880, "num_attention_heads": 112}),
        ("llama3p1-405b", {"num_hidden_layers": 126, "num_key_value_heads": 8}),
        ("mistral-7b", {"vocab_size": 32000, "rope_theta": 1000000.0}),
        ("step3p5-flash-moe-196b", {"moe_num_experts": 288, "vocab_size": 128896}),
        ("yi-34b", {"vocab_size": 64000, "rope_theta": 5000000.0}),
        ("qwen-14b", {"vocab_size": 152064, "intermediate_size": 27392}),
    ],
)
def test_published_values(key: str, expected: dict[str, object]) -> None:
    config = load_model(key).config
    assert {name: config[name] for name in expected} == expected


def test_unknown_recipe_and_model_name_near_matches() -> None:
    with pytest.raises(UsageError) as caught:
        load_recipe("qwen3-235b-a22b-4k-fsdp")
    assert "qwen3-235b-a22b-4k-fsdp2" in (caught.value.hint or "")
    with pytest.raises(UsageError) as caught:
        load_model("qwen3-235b-a22")
    assert "qwen3-235b-a22b" in (caught.value.hint or "")


def _raw() -> dict:  # type: ignore[type-arg]
    return {
        "schema": "certify.recipe/1", "id": "x", "kind": "row", "name": "x", "backend": "mcore",
        "stage": "pretrain", "source": {"repo": "a/b", "path": "x.sh"},
        "cluster": {}, "parallel": {}, "batch": {}, "training": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"training": {"lrr": 1.0}}, "training.lrr"),
        ({"training": {"steps": "many"}}, "training.steps"),
        ({"parallel": {"tp": True}}, "parallel.tp"),
        ({"parallel": {"fsdp_modules": [1]}}, "parallel.fsdp_modules"),
        ({"parallel": {"recompute": {"depth": 1}}}, "parallel.recompute.depth"),
        ({"backend": "cuda"}, "backend"),
        ({"env": {"A": [1]}}, "env.A"),
        ({"differences": [{"why": "x"}]}, "differences.why"),
        ({"config_variants": [{"name": "x"}]}, "config_variants"),
        ({"sectoin": {}}, "sectoin"),
        ({"source": 3}, "source"),
        ({"source": {"repo": "a/b"}}, "source.path"),
    ],
)
def test_the_schema_names_the_key_at_fault(change: dict, key: str) -> None:  # type: ignore[type-arg]
    recipe_from_dict(_raw(), "here")
    with pytest.raises(UsageError) as caught:
        recipe_from_dict({**_raw(), **change}, "here.toml")
    assert caught.value.where == "here.toml"
    assert repr(key) in caught.value.what


def test_data_is_read_inside_a_zip_archive(tmp_path: Path) -> None:
    root = Path(matrices.__file__).parent.parent
    archive = tmp_path / "app.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        for path in [*root.glob("certify/**/*.py"), *root.glob("matrices/**/*.*")]:
            if "__pycache__" not in path.parts:
                file.write(path, path.relative_to(root))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from certify.recipes.load import load_recipe, load_model, model_keys\n"
        "print(load_recipe('qwen3-235b-a22b-4k-fsdp2').batch.global_, len(model_keys()))\n"
        "try: load_recipe('nothing')\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code] if sys.version_info >= (3, 11) else
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert result.stdout.split() == ["1024", str(len(model_keys())), "UsageError"], result.stderr


def test_loading_one_recipe_reads_one_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    from matrices import files

    read = []
    original = files.read_text
    monkeypatch.setattr(files, "read_text", lambda name: read.append(name) or original(name))
    load_recipe("qwen3-235b-a22b-4k-mcore")
    assert [name for name in read if name.startswith("recipes/")] == [
        "recipes/qwen3-235b-a22b-4k-mcore.toml"
    ]
