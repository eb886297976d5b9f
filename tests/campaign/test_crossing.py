"""The legs of a crossing: each starts from what the one before it left, on its own backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from certify.campaign import crossing
from certify.campaign.layout import Layout
from certify.campaign.phases import choose
from certify.campaign.request import load_scale
from certify.campaign.specs import Inputs
from certify.criteria.plan import read_plan
from certify.recipes.load import load_model, load_recipe
from certify.recipes.scale import scale_down
from certify.runspec import RunSpec

TINY = load_scale("tiny")


def specs_of(root: Path, model: str) -> tuple[Inputs, dict[str, RunSpec]]:
    recipe = dict(load_recipe(f"{model}-4k-fsdp2").raw)
    scaled = scale_down(recipe, dict(load_model(model).config), TINY)
    inputs = Inputs(
        layout=Layout(root),
        campaign_id="c",
        recipe_id="r",
        scaled=scaled,
        prepared={"weights_digest": "aa" * 32, "n_samples": 8, "vocab_size": 512},
        hf_config={**scaled.hf_config, "vocab_size": 512},
        device="cpu",
        world_size=scaled.world_size,
    )
    planned = crossing.planned(inputs, "c-cross-backend")
    runs = {leg["name"]: leg["run"] for leg in planned["legs"]}
    legs = crossing.legs(inputs.world_size)
    return inputs, {leg.name: crossing.leg_spec(inputs, leg, runs, "c-candidate") for leg in legs}


@pytest.mark.parametrize(
    ("model", "over"), [("qwen3-32b", {"tp_size": 2}), ("qwen3-30b-a3b", {"pp_size": 2})]
)
def test_every_leg_starts_from_the_one_before(
    tmp_path: Path, model: str, over: dict[str, Any]
) -> None:
    inputs, specs = specs_of(tmp_path, model)
    runs = tmp_path / "runs"
    out, repack = (str(runs / specs[name].run_id / "export") for name in ("out", "repack"))
    assert [s.backend for s in specs.values()] == ["fsdp2", "fsdp2", "mcore", "mcore", "fsdp2"]
    assert [s.model.weights_dir for s in specs.values()][1:3] == [out, out]
    assert specs["back"].model.weights_dir == repack
    assert specs["stay"].model.weights_digest == specs["back"].model.weights_digest == ""
    save = inputs.scaled.resume["save_step"]
    left = specs["out"].checkpoint
    assert left.resume_from == str(runs / "c-candidate" / "checkpoints" / f"step-{save:06d}")
    assert (left.export, specs["out"].stop_step) == (True, save)
    saved = runs / specs["over"].run_id / "checkpoints" / "step-000001"
    assert specs["over"].checkpoint.save_steps == (1,)
    assert specs["repack"].checkpoint.resume_from == str(saved)
    assert specs["repack"].checkpoint.export
    assert (specs["repack"].world_size, specs["over"].world_size) == (1, 2)
    assert {key: getattr(specs["over"].parallel, key) for key in over} == over
    assert specs["stay"].training.steps == specs["over"].training.steps
    assert len({s.run_id for s in specs.values()}) == 5


@pytest.mark.torch
@pytest.mark.parametrize("model", ["qwen3-32b", "qwen3-30b-a3b"])
def test_megatron_takes_its_legs(tmp_path: Path, model: str) -> None:
    from runner.backends.mcore import limits

    _, specs = specs_of(tmp_path, model)
    limits.check(specs["over"])
    limits.check(specs["repack"])


def test_the_phase_is_on_request() -> None:
    assert "cross-backend" not in choose(None)
    assert choose(["cross-backend"]) == ("prepare", "candidate", "cross-backend", "judge")


def test_the_plan_names_every_leg(tmp_path: Path) -> None:
    import json

    from tests.criteria.synthetic import Campaign

    inputs, _ = specs_of(tmp_path, "qwen3-32b")
    body = Campaign().plan | {"crossing": crossing.planned(inputs, "c-cross-backend-a2")}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(body))
    found = read_plan(path).crossing
    assert found is not None
    assert [leg.run for leg in found.legs][:2] == ["c-cross-backend-1-a2", "c-cross-backend-2-a2"]
