"""Tuning, LoRA and DPO scripts are variants of their row, each with the facts of its script."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from certify.cli import main
from certify.errors import UsageError
from certify.recipes.load import load_recipe, load_support_list, resolve_name
from certify.recipes.poc import list_scripts, scripts_of
from certify.recipes.variants import Variant, find_variant, list_variants, variants_of

ROWS = {row.id: row for row in load_support_list()}
VARIANTS = list_variants()


def test_every_script_that_a_row_names_is_a_variant() -> None:
    named = set()
    for row_id in ROWS:
        recipe = load_recipe(row_id)
        folder = recipe.source.path.rpartition("/")[0]
        scripts = recipe.raw.get("variants", {})
        own = [name for stage in ("tune", "lora", "dpo") for name in scripts.get(stage, ())]
        assert [one.path for one in variants_of(recipe)] == [f"{folder}/{name}" for name in own]
        named |= {(recipe.source.branch, f"{folder}/{name}") for name in own}
    assert {(one.branch, one.path) for one in VARIANTS} == named
    assert len({one.id for one in VARIANTS}) == len(VARIANTS) == len(named) == 121
    assert Counter(one.stage for one in VARIANTS) == {"tune": 76, "lora": 37, "dpo": 8}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.id)
def test_a_variant_is_a_recipe_tied_to_its_row(variant: Variant) -> None:
    recipe = load_recipe(variant.id)
    row = ROWS[variant.row]
    assert (recipe.kind, recipe.row) == ("variant", row)
    assert recipe.model_key == row.model_key
    assert (recipe.stage, recipe.backend) == (variant.stage, variant.backend)
    assert (recipe.source.path, recipe.source.branch) == (variant.path, variant.branch)
    assert recipe.source.commit
    assert f"{recipe.cluster.nodes}x{recipe.cluster.npus_per_node}" == variant.cluster
    assert recipe.training.seq_length == int(variant.seq_length)
    assert (recipe.product or "") == variant.product


def test_values_are_those_of_the_script() -> None:
    """examples/mcore/qwen3_moe/tune_qwen3_235b_a22b_32K_lora_pack_A2_ptd.sh, read by eye."""
    recipe = load_recipe("tune-qwen3-235b-a22b-32k-lora-pack-a2")
    p = recipe.parallel
    assert (p.tp, p.pp, p.ep, p.cp, p.layers_per_virtual_stage) == (4, 8, 2, 1, 4)
    assert (recipe.batch.micro, recipe.batch.global_) == (1, 32)
    assert recipe.training.lr == 1.5e-5
    assert recipe.raw["other_options"]["lora-r"] == 16
    assert recipe.raw["other_options"]["lora-alpha"] == 32
    assert recipe.entry == "posttrain_gpt.py"


def test_ids_are_no_ids_of_anything_else() -> None:
    others = {*ROWS, *(script.id for script in list_scripts())}
    assert not others & {one.id for one in VARIANTS}
    assert find_variant("qwen3-8b-4k-mcore") is None


def test_a_mistyped_variant_names_near_ones() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_name("tune-qwen3-235b")
    assert "tune-qwen3-235b-a22b-4k-full-pack-a3" in (caught.value.hint or "")


def test_a_script_is_no_row_and_says_which_is_its_own() -> None:
    with pytest.raises(UsageError, match="is a script of the row qwen3-8b-4k-mcore") as caught:
        resolve_name("tune-qwen3-8b-4k")
    assert caught.value.hint == "name the row, qwen3-8b-4k-mcore"


def call(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["recipes", *words]) == 0
    return str(capsys.readouterr().out)


def test_a_row_shows_its_variants_and_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    out = call(capsys, "show", "qwen3-235b")
    assert "lora       tune-qwen3-235b-a22b-32k-lora-pack-a2: 32768 tokens, 8x8, A2\n" in out
    perf = "qwen3-235b-64p-perf-qwen3-26b-8k-bf16-a5"
    assert f"performance {perf}: scale reduced-64, 8x8, routing fixed\n" in out
    document = json.loads(call(capsys, "show", "qwen3-235b", "--json"))
    assert [one["stage"] for one in document["variants"]] == ["tune"] * 4 + ["lora"]
    assert len(document["scripts"]) == len(scripts_of("qwen3-235b-a22b-4k-mcore")) > 10


def test_a_variant_and_a_measurement_name_their_row(capsys: pytest.CaptureFixture[str]) -> None:
    out = call(capsys, "show", "tune-qwen3-235b-a22b-32k-lora-pack-a2")
    assert "row        qwen3-235b-a22b-4k-mcore, of which this is a variant\n" in out
    assert "  lora-r = 16\n" in out
    out = call(capsys, "show", "qwen3-235b-64p-perf-qwen3-26b-8k-bf16-a5")
    assert "scale      reduced-64\n" in out
    assert "routing    fixed: " in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--kind", "variant"), 121),
        (("--kind", "variant", "--model", "qwen3-235b"), 5),
        (("--kind", "variant", "--category", "sparse", "--backend", "fsdp2"), None),
        (("--kind", "accuracy", "--status", "Test", "--contributor", "nobody"), 0),
    ],
)
def test_list_filters(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: int | None
) -> None:
    found = json.loads(call(capsys, "list", *words, "--json"))["recipes"]
    if expected is None:
        wanted = {
            one.id
            for one in VARIANTS
            if one.backend == "fsdp2" and ROWS[one.row].category == "sparse"
        }
        assert {one["id"] for one in found} == wanted
        assert wanted
    else:
        assert len(found) == expected
