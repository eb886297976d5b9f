"""A checkpoint in other layouts, for real: 2, 4 and 1 ranks, with a vocabulary and a head that do
not divide by them, and a parameter with fewer rows than there are ranks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from certify.records import State, Topology, read_run
from certify.runspec import CheckpointSpec
from tests.runner.tiny import TRAINING, Prepared, prepare, steps_of, trained

if TYPE_CHECKING:
    from certify.runspec import RunSpec

pytestmark = pytest.mark.torch

STEP = 3


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """97 rows of vocabulary; keys and their norm have 2 rows, fewer than 4 ranks."""
    return prepare(
        tmp_path_factory.mktemp("uneven"), vocab_size=97, head_dim=2, num_key_value_heads=1
    )


def hop(
    prepared: Prepared,
    name: str,
    source: RunSpec,
    ranks: int,
    fault: str | None = None,
    **sizes: int,
) -> RunSpec:
    folder = Path(source.run_dir) / "checkpoints" / f"step-{STEP:06d}"
    spec = prepared.spec(name, ranks=ranks, ep=sizes.get("ep_size", 1), stop_step=STEP + 1)
    return dataclasses.replace(
        spec,
        parallel=dataclasses.replace(spec.parallel, **sizes),
        training=dataclasses.replace(TRAINING, micro_batch=2),
        checkpoint=CheckpointSpec(resume_from=str(folder), resave=True),
        fault=fault,
    )


@pytest.fixture(scope="module")
def runs(uneven: Prepared) -> dict[str, RunSpec]:
    saving = CheckpointSpec(save_steps=(STEP,))

    def first(name: str, fault: str | None = None) -> RunSpec:
        return uneven.spec(name, checkpoint=saving, stop_step=STEP + 1, fault=fault)

    start = first("start")
    lost = ("expert-block-lost", "vocabulary-rows-lost")
    spoiled = {name: first(f"saved-{name}", name) for name in lost}
    four = hop(uneven, "four", start, 4, ep_size=4)
    sizes = {"replicate_size": 2, "fsdp_size": 2, "ep_size": 2, "ep_fsdp_size": 2}
    hybrid = hop(uneven, "hybrid", start, 4, **sizes)
    one = hop(uneven, "one", hybrid, 1)
    after = {name: hop(uneven, name, spec, 4, ep_size=4) for name, spec in spoiled.items()}
    swapped = hop(uneven, "swapped", start, 4, fault="expert-shard-swapped", ep_size=4)
    back = hop(uneven, "back", one, 2, ep_size=2)
    trained(start, *spoiled.values())
    trained(four, hybrid, swapped, *after.values(), ranks=4)
    trained(one, ranks=1)
    trained(back)
    return {
        "start": start, "four": four, "one": one, "hybrid": hybrid, "back": back,
        "swapped": swapped, **after,
    }  # fmt: skip


def state(spec: RunSpec, at: str) -> dict[str, str]:
    """The digests at a point, without random states, which belong to ranks."""
    found = read_run(Path(spec.run_dir))[0].of(State)
    digests = next(s.digests for s in found if (s.at, s.step) == (at, STEP))
    return {part: digest for part, digest in digests.items() if not part.startswith("rng.")}


def test_weights_and_moments_are_the_same_bits_in_every_layout(runs: dict[str, RunSpec]) -> None:
    saved = state(runs["start"], "save")
    assert {"params", "exp_avg", "exp_avg_sq", "optimizer_step", "data_cursor"} <= set(saved)
    for name in ("four", "one", "hybrid", "back"):
        for at in ("load", "save"):
            assert state(runs[name], at) == saved, (name, at)


def test_the_next_step_differs_by_rounding_only(runs: dict[str, RunSpec]) -> None:
    wanted = steps_of(runs["start"])[STEP + 1]
    for name in ("four", "one", "hybrid", "back"):
        found = steps_of(runs[name])[STEP + 1]
        assert found.tokens_sha256 == wanted.tokens_sha256
        assert found.loss == pytest.approx(wanted.loss, rel=1e-5)
        assert found.grad_norm == pytest.approx(wanted.grad_norm, rel=1e-4)


def test_the_layouts_were_those_of_live_groups(runs: dict[str, RunSpec]) -> None:
    def groups(name: str) -> dict[str, int]:
        topology = read_run(Path(runs[name].run_dir))[0].of(Topology)[-1]
        return {group: len(ranks) for group, ranks in topology.groups.items()}

    assert groups("four")["ep"] == 4
    assert groups("hybrid")["replicate"] == groups("hybrid")["ep_fsdp"] == 2
    assert groups("one") == {"world": 1, "dp": 1, "fsdp": 1}
    assert groups("back") == groups("start")


@pytest.mark.parametrize("name", ["swapped", "expert-block-lost", "vocabulary-rows-lost"])
def test_what_goes_wrong_on_the_way_changes_the_digest(name: str, runs: dict[str, RunSpec]) -> None:
    saved, loaded = state(runs["start"], "save"), state(runs[name], "load")
    assert loaded["params"] != saved["params"]
    assert {p for p in saved if loaded[p] != saved[p]} == {"params"}
