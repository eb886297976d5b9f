"""What the backend refuses: other releases of megatron-core, runs of other semantics."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from certify import records
from certify.errors import InfrastructureError, UsageError
from certify.runspec import CheckpointSpec
from runner.backends import mcore
from runner.backends.mcore import cpu, limits, versions
from tests.runner.mcore import tiny

if TYPE_CHECKING:
    from certify.runspec import RunSpec

pytestmark = pytest.mark.torch


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    return tiny.make_spec(tmp_path, tiny.hf_config("qwen3_moe"), 2, aux_loss_coef=1e-2)


@pytest.mark.parametrize("found", ["0.12.1", "0.15.4", "0.17.0", "0.19.2", "1.0.0", "unknown"])
def test_unchecked_releases(found: str, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions.metadata, "version", lambda _: found)
    # Another test may have imported megatron: what counts is that this run imports nothing of it.
    before = {name for name in sys.modules if name.startswith("megatron")}
    with pytest.raises(InfrastructureError, match=f"megatron-core {found} was not checked"):
        mcore.run(spec)
    assert {name for name in sys.modules if name.startswith("megatron")} == before
    end = records.read_file(records.rank_file(Path(spec.run_dir), 0)).last(records.End)
    assert end is not None
    assert (end.status, end.steps) == ("failed", 0)


@pytest.mark.parametrize("found", ["0.16.0", "0.16.1", "0.16.2rc0"])
def test_checked_releases(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions.metadata, "version", lambda _: found)
    assert versions.require_supported() == found


def test_checkpoints_without_psutil_are_refused_before_training(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Megatron's writer would die in its own process, and the run would wait for ever."""
    monkeypatch.setattr(versions, "find_spec", lambda _: None)
    saving = replace(spec, checkpoint=CheckpointSpec(save_steps=(1,)))
    with pytest.raises(InfrastructureError, match="psutil is not installed") as raised:
        mcore.run(saving)
    assert "pip install psutil" in str(raised.value)


def test_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> str:
        raise versions.metadata.PackageNotFoundError

    monkeypatch.setattr(versions.metadata, "version", absent)
    with pytest.raises(InfrastructureError, match="not installed") as raised:
        cpu.apply()
    assert "pip install" in str(raised.value)
    assert cpu.applied() == ()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_nothing_is_patched_for_cuda(spec: RunSpec) -> None:
    dense = replace(spec.model, hf_config=tiny.hf_config("qwen3"))
    training = replace(spec.training, aux_loss_coef=0.0)
    with pytest.raises(InfrastructureError, match="no cuda device"):
        mcore.run(replace(spec, device="cuda", model=dense, training=training))
    assert cpu.applied() == ()


@pytest.mark.parametrize(
    ("part", "changes", "named"),
    [
        ("training", {"micro_batch": 2}, "micro_batch"),
        ("training", {"micro_batch": 3}, "micro_batch"),
        ("training", {"aux_loss_formula": "pooled"}, "aux_loss_formula"),
        ("training", {"warmup_steps": 24}, "warmup_steps"),
        ("training", {"schedule": "step"}, "schedule"),
        ("training", {"optimizer": "sgd"}, "optimizer"),
        ("model", {"dtype": "bfloat16"}, "dtype"),
        ("", {"device": "xpu"}, "device"),
    ],
)
def test_runs_of_other_semantics(
    spec: RunSpec, part: str, changes: dict[str, Any], named: str
) -> None:
    limits.check(spec)
    wanted = {part: replace(getattr(spec, part), **changes)} if part else changes
    with pytest.raises(UsageError, match=named):
        limits.check(replace(spec, **wanted))
