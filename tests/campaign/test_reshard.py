"""The chain of layouts: from the candidate's own through others and back."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from certify.campaign.layout import Layout
from certify.campaign.processes import Job, run_group
from certify.campaign.request import load_scale
from certify.campaign.reshard import chain, hop_run
from certify.campaign.sequence import sequence_job
from certify.errors import UsageError

MOE = {"fsdp_size": 2, "ep_size": 2, "ep_fsdp_size": 1}


def sizes(hops: list) -> list[tuple[int, int, int, int]]:
    """(ranks, fsdp, replicas, ep) of each hop."""
    names = ("fsdp_size", "replicate_size", "ep_size")
    return [(hop.world_size, *(hop.sizes[name] for name in names)) for hop in hops]


def test_the_tiny_scale_goes_through_one_two_and_four_ranks_and_back() -> None:
    hops = chain(load_scale("tiny"), MOE, 2, moe=True)
    found = sizes(hops)
    assert {ranks for ranks, *_ in found} == {1, 2, 4}
    assert {ep for *_, ep in found} == {1, 2, 4}
    assert any(replicas > 1 for _, _, replicas, _ in found)
    assert found[-1] == (2, 2, 1, 2)
    assert len(set(pairwise(found))) == len(found) - 1


def test_layouts_of_a_dense_model_differ_in_more_than_experts() -> None:
    scale = {
        "name": "x",
        "reshard": {
            "layouts": [
                {"world_size": 2, "fsdp_size": 2, "ep_size": 2},
                {"world_size": 1},
                {"world_size": 1, "ep_size": 1},
            ]
        },
    }
    assert sizes(chain(scale, {"fsdp_size": 2}, 2, moe=False)) == [(1, 1, 1, 1), (2, 2, 1, 1)]
    assert chain({"name": "x"}, {"fsdp_size": 2}, 2, moe=False) == []


def test_a_layout_that_leaves_ranks_over_is_refused() -> None:
    scale = {"name": "x", "reshard": {"layouts": [{"world_size": 4, "fsdp_size": 2}]}}
    with pytest.raises(UsageError, match="does not cover its ranks"):
        chain(scale, MOE, 2, moe=True)


def test_a_repeated_phase_has_runs_of_its_own() -> None:
    assert hop_run("c1-reshard", 2) == "c1-reshard-2"
    assert hop_run("c1-reshard-a3", 2) == "c1-reshard-2-a3"
    assert hop_run("qwen3-a22b-a3b-reshard", 1) == "qwen3-a22b-a3b-reshard-1"


def test_a_sequence_ends_with_the_first_that_fails_and_says_why(tmp_path: Path) -> None:
    layout = Layout(tmp_path)

    def job(number: int, code: str) -> Job:
        log = tmp_path / f"log-{number}"
        return Job("part", (sys.executable, "-c", code), tmp_path, log, {"WORD": f"w{number}"})

    good = job(1, "import os; print(os.environ['WORD'])")
    bad = job(2, "import sys; print('error: no luck'); sys.exit(4)")
    never = job(3, "print('never')")
    outcome = run_group([sequence_job("all", layout, "r1", [good, bad, never])], lambda: None)[0]
    assert outcome.exit_code == 4
    assert (tmp_path / "log-1").read_text() == "w1\n"
    assert "error: no luck" in layout.log("r1").read_text()
    assert not (tmp_path / "log-3").exists()
