"""Run specs: strict JSON, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from certify import runspec
from certify.errors import UsageError
from certify.runspec import DataSpec, ModelSpec, ParallelSpec, RunSpec, TrainingSpec


@pytest.fixture
def spec() -> RunSpec:
    return RunSpec(
        run_id="c-candidate",
        campaign_id="c",
        recipe_id="r",
        role="candidate",
        backend="fsdp2",
        run_dir="/tmp/x",
        world_size=2,
        model=ModelSpec({"model_type": "qwen3_moe"}, "/w", "d" * 64),
        data=DataSpec("/s.npy", 100, 64, 512, 7),
        parallel=ParallelSpec(fsdp_size=2, ep_size=2),
        training=TrainingSpec(
            200, 8, 4, 1e-3, 1e-4, 1e-4, 10, 200, "cosine", 0.1, 0.9, 0.95, 1e-8, 1.0, 42
        ),
    )


def test_round_trip(spec: RunSpec, tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    runspec.write_spec(spec, path)
    assert runspec.read_spec(path) == spec
    assert spec.last_step == 200


def change(spec: RunSpec, **changes: Any) -> dict[str, Any]:
    body = json.loads(runspec.to_json(spec))
    for dotted, value in changes.items():
        *path, last = dotted.split("__")
        inner = body
        for key in path:
            inner = inner[key]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
    return body


@pytest.mark.parametrize(
    ("changes", "what", "where"),
    [
        ({"training__lrr": 1}, "unknown key 'lrr'", "x: training"),
        ({"training__lr": "fast"}, "found 'fast'", "x: training: lr"),
        ({"training__steps": 1.5}, "found 1.5", "x: training: steps"),
        ({"training__steps": True}, "found True", "x: training: steps"),
        ({"model": ...}, "missing key 'model'", "x"),
        ({"parallel__fsdp_modules": "layers"}, "found 'layers'", "x: parallel: fsdp_modules"),
        ({"checkpoint__save_steps": [1, "2"]}, "found '2'", "x: checkpoint: save_steps[1]"),
        ({"model__hf_config": []}, "found []", "x: model: hf_config"),
    ],
)
def test_every_fault_names_its_key(
    spec: RunSpec, changes: dict[str, Any], what: str, where: str
) -> None:
    with pytest.raises(UsageError) as caught:
        runspec.from_json(RunSpec, change(spec, **changes), "x")
    assert caught.value.what == what
    assert caught.value.where == where


def test_near_match_is_offered(spec: RunSpec) -> None:
    with pytest.raises(UsageError) as caught:
        runspec.from_json(RunSpec, change(spec, run_idd="y"), "x")
    assert caught.value.expected == "'run_id'?"


def test_whole_numbers_are_floats_where_floats_are_meant(spec: RunSpec) -> None:
    read = runspec.from_json(RunSpec, change(spec, training__lr=1), "x")
    assert read.training.lr == 1.0
    assert isinstance(read.training.lr, float)


@pytest.mark.parametrize("text", ["", "[", "[]", '"x"'])
def test_files_that_are_no_spec(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        runspec.read_spec(path)


def test_another_schema(spec: RunSpec, tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(change(spec, schema="certify.runspec/9")))
    with pytest.raises(UsageError, match=r"certify\.runspec/9"):
        runspec.read_spec(path)
