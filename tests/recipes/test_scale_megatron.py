"""Layouts of Megatron-Core rows, scaled down: what is divided stays divided, and runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from certify.campaign.layout import Layout
from certify.campaign.reference_side import mcore_builds
from certify.campaign.request import load_scale
from certify.campaign.specs import Inputs, candidate_spec
from certify.recipes.load import load_model, load_recipe
from certify.recipes.rows import Row, load_support_list
from certify.recipes.scale import ScaledRecipe, scale_down
from certify.recipes.scale.model import Change
from certify.runspec import RunSpec

TINY = load_scale("tiny")


def scaled(recipe_id: str, model_key: str) -> ScaledRecipe:
    recipe = dict(load_recipe(recipe_id).raw)
    return scale_down(recipe, dict(load_model(model_key).config), TINY)


@pytest.mark.parametrize(
    ("model", "ranks", "layers", "layout"),
    [
        ("qwen3-0p6b", 2, 3, {"distributed_optimizer": True}),
        ("qwen3-14b", 2, 3, {"tp_size": 2}),
        ("qwen3-32b", 4, 4, {"tp_size": 2, "pp_size": 2, "vpp_size": 2}),
        (
            "qwen3-30b-a3b",
            4,
            3,
            {
                "pp_size": 2,
                "ep_size": 2,
                "moe_dispatcher": "alltoall",
                "distributed_optimizer": True,
                "recompute": "full",
            },
        ),
        (
            "qwen3-235b-a22b",
            4,
            4,
            {
                "pp_size": 2,
                "vpp_size": 2,
                "ep_size": 2,
                "moe_dispatcher": "alltoall",
                "distributed_optimizer": True,
                "recompute": "full",
            },
        ),
    ],
)
def test_a_layout_keeps_what_it_divides(
    model: str, ranks: int, layers: int, layout: dict[str, Any]
) -> None:
    found = scaled(f"{model}-4k-mcore", model)
    undivided = {"tp_size": 1, "pp_size": 1, "vpp_size": 1, "ep_size": 1}
    undivided |= {"moe_dispatcher": "allgather", "distributed_optimizer": False}
    assert found.parallel == {**undivided, "recompute": "none", **layout}
    assert found.world_size == ranks
    assert found.hf_config["num_hidden_layers"] == layers
    assert found.training["micro_batch"] == 2
    formula = "megatron-micro-batch" if found.parallel["ep_size"] > 1 else "megatron"
    assert found.training["aux_loss_formula"] == formula


def test_what_is_given_up_is_said_with_the_reason() -> None:
    changes: dict[str, Change] = {
        c.key: c for c in scaled("qwen3-30b-a3b-4k-mcore", "qwen3-30b-a3b").changes
    }
    sequence = changes["parallel.sequence_parallel"]
    assert (sequence.published, sequence.scaled) == (True, False)
    assert "Transformer Engine" in sequence.rule
    assert (changes["parallel.pp_size"].published, changes["parallel.pp_size"].scaled) == (2, 2)
    assert (changes["parallel.ep_size"].published, changes["parallel.ep_size"].scaled) == (8, 2)
    assert changes["parallel.moe_dispatcher"].published == "alltoall_seq"


def test_an_fsdp2_row_is_scaled_as_before() -> None:
    found = scaled("qwen3-30b-a3b-4k-fsdp2", "qwen3-30b-a3b")
    assert (found.world_size, found.training["micro_batch"]) == (2, 4)
    assert found.training["aux_loss_formula"] == "megatron"
    assert "tp_size" not in found.parallel


def test_a_recipe_names_its_auxiliary_loss() -> None:
    recipe = dict(load_recipe("qwen3-30b-a3b-4k-fsdp2").raw)
    recipe["training"] = {**recipe["training"], "aux_loss_formula": "pooled"}
    found = scale_down(recipe, dict(load_model("qwen3-30b-a3b").config), TINY)
    assert found.training["aux_loss_formula"] == "pooled"
    (change,) = [c for c in found.changes if c.key == "training.aux_loss_formula"]
    assert (change.published, change.scaled) == ("pooled", "pooled")


def built_rows() -> list[Row]:
    rows = [row for row in load_support_list() if row.backend == "mcore"]
    known = []
    for row in rows:
        try:
            public = load_model(row.model_key).config
        except Exception:
            continue
        known += [row] if mcore_builds(public) else []
    return known


@pytest.mark.torch
def test_the_runner_accepts_the_layout_of_every_row_that_it_builds(tmp_path: Path) -> None:
    """The rules know nothing of the runner; what they give must be what it runs."""
    from runner.backends.mcore import limits

    rows = built_rows()
    assert len(rows) > 30
    kinds = set()
    for row in rows:
        found = scaled(row.id, row.model_key)
        spec = spec_of(found, tmp_path)
        limits.check(spec)
        p = spec.parallel
        kinds.add((p.tp_size, p.pp_size, p.vpp_size, p.ep_size, spec.world_size))
    assert {(2, 2, 1, 1, 4), (2, 2, 2, 1, 4), (1, 2, 1, 2, 4), (1, 1, 1, 1, 2)} <= kinds


def spec_of(found: ScaledRecipe, root: Path) -> RunSpec:
    inputs = Inputs(
        layout=Layout(root),
        campaign_id="c",
        recipe_id="r",
        scaled=found,
        prepared={"weights_digest": "", "n_samples": 1, "vocab_size": 512},
        hf_config={**found.hf_config, "vocab_size": 512},
        device="cpu",
        world_size=found.world_size,
        backend="mcore",
    )
    return candidate_spec(inputs, "run")
