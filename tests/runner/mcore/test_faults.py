"""Faults of the reference side: recorded, and visible in what the gates compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from certify import records
from runner import evidence, faults
from runner.backends.mcore import faults as reference_faults
from tests.runner.mcore import tiny

if TYPE_CHECKING:
    from tests.runner.mcore.tiny import Run

pytestmark = pytest.mark.torch


def test_the_registry_names_them() -> None:
    named = {name for name, fault in faults.FAULTS.items() if fault.side == "reference"}
    assert named == {reference_faults.WEIGHT, reference_faults.AUX_ZERO}
    assert {faults.FAULTS[name].backends for name in named} == {("mcore",)}


def test_one_weight_one_percent_larger(moe: Run) -> None:
    run = tiny.again(moe, "weight", fault=reference_faults.WEIGHT, stop_step=2)
    assert run.code == 0, run.stderr
    event = run.file.last(records.Event)
    assert event is not None
    assert event.name == "fault_injected"
    assert event.detail["tensor"] == "model.layers.0.self_attn.o_proj.weight"
    first = run.file.of(records.State)[0]
    assert first.digests["params"] == run.spec.model.weights_digest, "injected after the digest"
    sound, faulty = (evidence.read_probe(r.spec.run_dir) for r in (moe, run))
    assert np.abs(sound.rows - faulty.rows).max() > 1e-4
    assert run.file.steps()[1].loss != moe.file.steps()[1].loss


def test_auxiliary_loss_left_out(moe: Run) -> None:
    run = tiny.again(moe, "aux", fault=reference_faults.AUX_ZERO, stop_step=2)
    assert run.code == 0, run.stderr
    model = next(c for c in run.file.of(records.Component) if c.part == "model")
    assert model.effective["aux_loss_coef"] == 0.0
    sound, faulty = moe.file.steps(), run.file.steps()
    assert faulty[1].loss_hex == sound[1].loss_hex, "the forward pass is the same"
    assert faulty[1].aux_loss == pytest.approx(sound[1].aux_loss, rel=1e-6)
    assert faulty[1].grad_norm != sound[1].grad_norm
    router = "model.layers.0.mlp.gate.weight"
    mine, other = (
        evidence.read_tensors(r.spec.run_dir, evidence.GRADIENTS)[router] for r in (moe, run)
    )
    assert float(torch.dist(mine, other) / mine.norm()) > 1e-3


def test_a_fault_of_the_candidate_is_refused(moe: Run) -> None:
    run = tiny.again(moe, "other", fault="lr-off-by-one")
    assert run.code == 2
    assert "lr-off-by-one" in run.stderr
    end = run.file.last(records.End)
    assert end is not None
    assert end.status == "failed"
