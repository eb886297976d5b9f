"""Architectures read from scripts and configurations: totals that the models' makers publish."""

from __future__ import annotations

import pytest

from certify.errors import EXIT_CANNOT_JUDGE, CannotJudgeError
from certify.plan.facts import architecture_of
from certify.plan.of_name import config_of
from certify.recipes.load import load_recipe

# Billions of parameters as published on the model cards; DeepSeek-V3's page counts 671 B, and
# 14 B more for its layer of multi-token prediction (of which embedding and head are shared).
PUBLISHED = {
    "llama2-7b-4k-mcore": 6.74,
    "llama3-70b-8k-mcore": 70.55,
    "qwen2p5-32b-32k-mcore": 32.76,
    "qwen3-235b-a22b-4k-fsdp2": 235.09,
    "qwen3-30b-a3b-4k-mcore": 30.53,
    "mixtral-8x7b-32k-mcore": 46.70,
    "deepseek-v2-236b-8k-mcore": 235.74,
    "deepseek-v3-671b-4k-mcore": 671.03 + 11.6,
    "gpt-oss-moe-20b-4k-fsdp2": 20.91,
    "longcat-moe-560b-4k-mcore": 560.7,
    "qwen3-next-80b-a3b-16k-mcore": 79.67,
}


@pytest.mark.parametrize("recipe_id", PUBLISHED)
def test_totals(recipe_id: str) -> None:
    recipe = load_recipe(recipe_id)
    found = architecture_of(recipe, config_of(recipe), recipe.backend).parameters / 1e9
    assert found == pytest.approx(PUBLISHED[recipe_id], rel=3e-4)


def test_layers_that_do_nothing_are_left_out() -> None:
    recipe = load_recipe("qwen3-235b-a22b-4k-mcore")
    assert recipe.model["layers"] == 96
    assert len(architecture_of(recipe, config_of(recipe), "mcore").layers) == 94


def test_a_missing_fact_is_named() -> None:
    recipe = load_recipe("aquila-7b-2k-legacy")
    with pytest.raises(CannotJudgeError) as caught:
        architecture_of(recipe, None, "mcore")
    assert caught.value.exit_code == EXIT_CANNOT_JUDGE
    assert caught.value.what.endswith(": vocabulary size")
    assert caught.value.hint == "--vocab ROWS"
    given = architecture_of(recipe, None, "mcore", vocab=100008)
    assert given.vocab == 100008


def test_blocks_without_a_formula_are_refused() -> None:
    recipe = load_recipe("deepseek-v4-flash-284b-4k-mcore")
    with pytest.raises(CannotJudgeError, match="no formula covers"):
        architecture_of(recipe, config_of(recipe), "mcore")


def test_all_four_kinds_of_hybrid_layers_add_up() -> None:
    recipe = load_recipe("mamba2hybrid-8b-4k-mcore")
    model = architecture_of(recipe, None, "mcore", vocab=256000)
    kinds = [layer.mixers[0].kind if layer.mixers else "mlp" for layer in model.layers]
    assert (kinds.count("attention"), kinds.count("mlp"), kinds.count("mamba")) == (4, 28, 24)
