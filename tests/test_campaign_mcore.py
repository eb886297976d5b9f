"""Campaigns whose candidate is Megatron-Core and whose reference is stock transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from certify.records import Collective, Component, Modules, Topology
from tests.conftest import require
from tests.test_campaign_end_to_end import certify, gates, rank_files

pytestmark = [pytest.mark.torch, pytest.mark.campaign]
DECIDED = (
    "plan-followed",
    "finite",
    "forward-parity",
    "backward-parity",
    "first-update",
    "loss-curve",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from importlib.util import find_spec

    require("megatron", find_spec("megatron") is not None, "megatron-core is not installed")
    return tmp_path_factory.mktemp("home")


def run(home: Path, recipe: str, *words: str) -> tuple[int, dict[str, Any]]:
    done = certify(home, "run", recipe, "--backend", "mcore", "--json", *words, timeout=1800)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_dense_row_agrees_with_transformers(home: Path) -> None:
    """All but the resume, which the whole campaigns below add."""
    code, document = run(home, "qwen3-0p6b", "--phases", "candidate,compare,judge")
    found = gates(document)
    assert {name: found[name] for name in DECIDED} == dict.fromkeys(DECIDED, "PASS"), document
    assert (code, found["resume"]) == (3, "INCONCLUSIVE")
    folder = Path(document["folder"])
    candidate, reference = rank_files(folder, "candidate"), rank_files(folder, "reference")
    assert [f.header.backend for f in candidate] == ["mcore", "mcore"]
    assert [f.header.backend for f in reference] == ["plain"]
    for file in candidate:
        parts = {c.part: c.package for c in file.of(Component)}
        assert {parts[p] for p in ("model", "optimizer", "scheduler")} == {"megatron"}
        (modules,) = file.of(Modules)
        assert "transformers" not in modules.loaded
        (topology,) = file.of(Topology)
        assert topology.groups["dp"] == [0, 1]
        tested = {(c.group, c.op) for c in file.of(Collective)}
        assert {("dp", "reduce_scatter_sum"), ("dp", "all_gather")} <= tested
        assert all(c.ok for c in file.of(Collective))
    (modules,) = reference[0].of(Modules)
    assert "megatron" not in modules.loaded
    steps = candidate[0].steps()
    assert sorted(steps) == list(range(1, 201))
    assert steps[200].loss < steps[1].loss - 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "layout"),
    [
        ("qwen3-0p6b", {"dp": 2}),
        ("qwen3-1p7b", {"dp": 2}),
        ("qwen3-32b", {"tp": 2, "pp": 2}),
        ("qwen3-30b-a3b", {"pp": 2, "dp": 2, "ep": 2}),
        ("qwen3-235b", {"pp": 2, "dp": 2, "ep": 2}),
    ],
)
def test_a_row_passes(home: Path, recipe: str, layout: dict[str, int]) -> None:
    code, document = run(home, recipe)
    assert (code, document["verdict"]) == (0, "PASS"), document
    for file in rank_files(Path(document["folder"]), "resume"):
        (topology,) = file.of(Topology)
        sizes = {name: len(ranks) for name, ranks in topology.groups.items() if name != "world"}
        assert {name: sizes[name] for name in layout} == layout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "fault", "gate", "phases"),
    [
        ("qwen3-14b", "tensor-parallel-unset", "backward-parity", "candidate,compare,judge"),
        ("qwen3-0p6b", "shared-adam-step", "resume", "candidate-again,resume,compare,judge"),
    ],
)
def test_what_megatron_does_silently_fails_at_its_gate(
    home: Path, recipe: str, fault: str, gate: str, phases: str
) -> None:
    code, document = run(home, recipe, "--inject", fault, "--phases", phases)
    found = gates(document)
    assert (code, document["verdict"], found[gate]) == (1, "FAIL", "FAIL")
    assert [name for name in (*DECIDED, "resume") if found[name] == "FAIL"] == [gate]
