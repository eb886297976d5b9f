"""FLOPs per token against published check values and an independent count."""

from __future__ import annotations

import pytest

from certify.plan.facts import architecture_of
from certify.plan.flops import active_parameters, flops_per_token, seen_keys
from certify.plan.of_name import config_of
from certify.recipes.load import load_recipe

from certify.plan.architecture import Architecture  # isort: skip


def model(recipe_id: str) -> Architecture:
    recipe = load_recipe(recipe_id)
    return architecture_of(recipe, config_of(recipe), recipe.backend)


@pytest.mark.parametrize(("seq", "gflop"), [(4096, 148.3), (32768, 280.8)])
@pytest.mark.parametrize("backend", ["fsdp2", "mcore"])
def test_check_values_of_the_criteria(seq: int, gflop: float, backend: str) -> None:
    found = flops_per_token(model(f"qwen3-235b-a22b-4k-{backend}"), seq) / 1e9
    assert found == pytest.approx(gflop, abs=0.05)


def test_a_dense_model_term_by_term() -> None:
    # Llama-2-7B by hand: 32 layers of 4 h^2 attention and 3 h f MLP, and the head.
    h, f, layers, vocab, seq = 4096, 11008, 32, 32000, 4096
    n_active = layers * (4 * h * h + 3 * h * f) + vocab * h
    assert active_parameters(model("llama2-7b-4k-mcore")) == n_active
    scores = layers * 2 * h * (seq + 1) / 2
    assert flops_per_token(model("llama2-7b-4k-mcore"), seq) == 6 * (n_active + scores)


@pytest.mark.parametrize("window", [1, 3, 8, 20])
def test_seen_keys_counts_a_triangle_cut_by_the_window(window: int) -> None:
    seq = 8
    counted = sum(min(position + 1, window) for position in range(seq)) / seq
    assert seen_keys(seq, window) == pytest.approx(counted)


def test_experts_that_do_nothing_need_no_arithmetic() -> None:
    longcat = model("longcat-moe-560b-4k-mcore")
    moe = longcat.layers[0].moe
    assert moe is not None
    assert moe.active == pytest.approx(12 * 512 / 768)
