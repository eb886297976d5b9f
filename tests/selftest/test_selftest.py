"""The selftest itself: faults of every kind are caught, an unharmed run passes, and a run inside
the long-lived process group is the one of a fresh process."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from certify.campaign.commands import environment
from certify.records import read_run
from certify.runspec import read_spec, write_spec
from certify.selftest.run import selftest
from tests.runner.tiny import ROOT

pytestmark = pytest.mark.torch

# One of each kind: in the schedule, in a save, in another layout.
FAULTS = ("lr-off-by-one", "expert-block-lost", "expert-shard-swapped")


def fresh(spec_file: Path, folder: Path) -> Path:
    """Train a spec again, in processes of its own; returns its run folder."""
    spec = dataclasses.replace(read_spec(spec_file), run_dir=str(folder))
    write_spec(spec, folder / "spec.json")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1")
    subprocess.run(
        [sys.executable, *torchrun, f"--nproc-per-node={spec.world_size}",
         "-m", "runner", str(folder / "spec.json")],
        env=environment(threads=1), cwd=ROOT, check=True, timeout=300, capture_output=True,
    )  # fmt: skip
    return folder


def losses(run: Path) -> list[tuple[int, str, str]]:
    return [(s.step, s.loss_hex, s.grad_norm_hex) for s in read_run(run)[0].steps().values()]


def compare(root: Path, names: Sequence[str], tmp_path: Path) -> None:
    for name in names:
        run = root / "moe-1" / "runs" / f"moe-1-{name}"
        assert losses(fresh(run / "spec.json", tmp_path / name)) == losses(run), name


def caught(body: dict[str, Any]) -> dict[str | None, bool]:
    return {row["fault"]: row["right"] == row["seeds"] for row in body["rows"]}


def test_faults_are_caught_and_an_unharmed_run_passes(tmp_path: Path) -> None:
    body = selftest(tmp_path / "runs", [1], True, FAULTS, lambda line: None)
    assert caught(body) == dict.fromkeys([None, *FAULTS], True), body["rows"]
    assert body["verdict"] == "PASS"
    compare(tmp_path / "runs", ["lr-off-by-one"], tmp_path)


@pytest.mark.slow
def test_every_fault_is_caught(tmp_path: Path) -> None:
    body = selftest(tmp_path / "runs", [1], True, None, lambda line: None)
    missed = [fault for fault, right in caught(body).items() if not right]
    assert missed == [], body["rows"]
    assert len(body["rows"]) >= 25
    compare(tmp_path / "runs", ["lr-off-by-one", "wrong-rope-base", "candidate"], tmp_path)
