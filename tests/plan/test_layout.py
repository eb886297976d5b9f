"""Layouts of recipes, checks, changes and suggestions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from certify.plan.changes import changes
from certify.plan.layout import Fsdp2Layout, McoreLayout, check_fsdp2, check_mcore
from certify.plan.make import Setting, make
from certify.plan.of_name import Options, question
from certify.plan.suggest import suggest

from tests.plan.test_flops import model  # isort: skip


def test_the_layout_of_the_published_fsdp2_recipe() -> None:
    asked = question("qwen3-235b", "fsdp2", Options())
    assert asked.layout == Fsdp2Layout(
        fsdp=256, ep=2, ep_fsdp=128, micro_batch=4, seq_length=4096, recompute=True,
        param_dtype="bf16", reduce_dtype="bf16", chunk_loss_size=1024,
        ignored=("model.layers.{*}.mlp.router",),
    )  # fmt: skip
    assert asked.layout.tokens_per_step == 4194304


def test_the_layout_of_the_published_mcore_recipe() -> None:
    layout = question("qwen3-235b", "mcore", Options()).layout
    assert isinstance(layout, McoreLayout)
    assert (layout.dp, layout.expert_dp, layout.grad_accumulation) == (64, 2, 16)
    assert layout.tokens_per_step == 4194304
    assert layout.noop_layers == (94, 95)


def test_another_cluster_reshapes_what_follows_from_it() -> None:
    layout = question("qwen3-235b", "fsdp2", Options(nodes=8, npus_per_node=16)).layout
    assert isinstance(layout, Fsdp2Layout)
    assert (layout.fsdp, layout.ep, layout.ep_fsdp) == (128, 2, 64)
    assert layout.tokens_per_step == 4194304


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (McoreLayout(16, tp=3), "tp x pp x cp = 3 does not divide 16 ranks"),
        (McoreLayout(16, pp=16), "94 layers cannot be divided over pp 16 x 1"),
        (McoreLayout(16, ep=3), "etp 1 x ep 3 x pp 1 does not divide 16 ranks"),
        (McoreLayout(16, cp=16, seq_length=24), "cp 16 does not divide 24 positions"),
    ],
)
def test_sizes_that_do_not_fit_are_named(layout: McoreLayout, said: str) -> None:
    assert said in check_mcore(layout, 16, model("qwen3-235b-a22b-4k-mcore"))


def test_fsdp2_sizes_that_do_not_fit_are_named() -> None:
    dense, moe = model("llama2-7b-4k-mcore"), model("qwen3-235b-a22b-4k-fsdp2")
    assert check_fsdp2(Fsdp2Layout(fsdp=8), 16, dense) == [
        "fsdp 8 x replicate 1 is not the 16 ranks"
    ]
    assert check_fsdp2(Fsdp2Layout(fsdp=8, ep=2, ep_fsdp=4), 8, dense) == [
        "ep 2 without routed experts"
    ]
    assert check_fsdp2(Fsdp2Layout(fsdp=24, ep=3, ep_fsdp=8), 24, moe) == [
        "ep 3 does not divide 128 experts"
    ]


def setting(
    recipe: str, backend: str, options: Options
) -> tuple[Setting, Fsdp2Layout | McoreLayout]:
    asked = question(recipe, backend, options)
    return asked.setting, asked.layout


def test_the_change_that_helps_most_saves_what_it_says() -> None:
    where, layout = setting("qwq-32b", "mcore", Options())
    before = make(where, layout)
    assert not before.fits
    found = changes(where, before)
    assert [c.saved for c in found] == sorted((c.saved for c in found), reverse=True)
    best = found[0]
    assert make(where, best.plan.layout).memory.total == before.memory.total - best.saved
    assert any(c.plan.fits for c in found)


def test_a_plan_that_fits_is_asked_for_time() -> None:
    where, layout = setting("qwen3-32b", "fsdp2", Options(chip="Ascend910", mfu=0.4))
    before = make(where, layout)
    assert before.fits
    found = changes(where, before)
    assert found
    assert all(c.plan.fits and (c.faster_s or 0) > 0 for c in found)


@pytest.mark.parametrize("backend", ["fsdp2", "mcore"])
def test_suggestions_fit_and_keep_the_batch(backend: str) -> None:
    where, layout = setting("qwen3-30b-a3b", backend, Options(chip="Ascend910", mfu=0.4))
    found = suggest(where, layout)
    assert found
    assert all(p.fits and p.tokens_per_step == layout.tokens_per_step for p in found)
    assert all(not p.problems for p in found)


def test_nothing_is_suggested_where_nothing_fits() -> None:
    where, layout = setting("qwen3-235b", "fsdp2", Options(nodes=1, npus_per_node=2))
    assert suggest(where, replace(layout, micro_batch=1)) == []
