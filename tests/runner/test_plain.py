"""The plain backend against the fsdp2 backend on one process: two loops, one class."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from certify.errors import UsageError
from certify.records import Component, State, read_run
from certify.runspec import CheckpointSpec, EvidenceSpec, ParallelSpec
from reference_runs.oracle import read_weights
from runner import evidence
from runner.backends import fsdp2, plain
from runner.routing import Routed
from tests.runner import family_configs, tiny

if TYPE_CHECKING:
    from certify.runspec import RunSpec

pytestmark = pytest.mark.torch


def spec_of(prepared: tiny.Prepared, name: str, backend: str) -> RunSpec:
    wanted = EvidenceSpec(
        probe_file=str(prepared.folder / "probe.npy"),
        gradients=True,
        first_update=True,
        routing=True,
    )
    spec = prepared.spec(name, ranks=1, ep=1, backend=backend, evidence=wanted)
    return dataclasses.replace(spec, parallel=ParallelSpec())


def test_both_loops_do_the_same(tmp_path: Path) -> None:
    prepared = tiny.prepare(tmp_path)
    ours, theirs = (spec_of(prepared, name, name) for name in ("fsdp2", "plain"))
    assert fsdp2.run(ours) == 0
    assert plain.run(theirs) == 0
    one, two = (read_run(Path(s.run_dir))[0] for s in (ours, theirs))
    assert one.of(State)[0].digests["params"] == two.of(State)[0].digests["params"]
    for number, mine in one.steps().items():
        other = two.steps()[number]
        assert other.tokens_sha256 == mine.tokens_sha256
        assert other.lr == pytest.approx(mine.lr, rel=1e-12)
        assert other.loss == pytest.approx(mine.loss, rel=1e-5)
        assert other.grad_norm == pytest.approx(mine.grad_norm, rel=1e-4)
        assert other.aux_loss == pytest.approx(mine.aux_loss, rel=1e-4)
    for artefact in (evidence.GRADIENTS, evidence.PARAMETERS):
        first, second = (evidence.read_tensors(s.run_dir, artefact) for s in (ours, theirs))
        assert first.keys() == second.keys()
        for name, tensor in first.items():
            assert torch.allclose(tensor, second[name], rtol=1e-4, atol=1e-6), name
    values = {p.part: p.effective for p in two.of(Component)}
    assert values["optimizer"] == {p.part: p.effective for p in one.of(Component)}["optimizer"]


def test_both_loops_move_the_choice_bias_alike(tmp_path: Path) -> None:
    config = family_configs.tiny("deepseek_v3")
    folder = tmp_path / "weights"
    family_configs.stock("deepseek_v3").save_pretrained(str(folder))
    samples = np.random.default_rng(5).integers(0, 96, (44, 17)).astype(np.int32)
    np.save(tmp_path / "samples.npy", samples)
    np.save(tmp_path / "mask.npy", np.ones((44, 16), dtype=np.uint8))
    prepared = tiny.Prepared(tmp_path, config, "")
    training = dataclasses.replace(tiny.TRAINING, router_bias_update_rate=0.01)
    ends = []
    for backend, run in (("fsdp2", fsdp2.run), ("plain", plain.run)):
        spec = prepared.spec(backend, ranks=1, ep=1, backend=backend, training=training)
        export = CheckpointSpec(export=backend == "fsdp2")
        spec = dataclasses.replace(
            spec, parallel=ParallelSpec(), checkpoint=export, evidence=EvidenceSpec(routing=True)
        )
        run(spec)
        ends.append(read_run(Path(spec.run_dir))[0].steps()[10])
    biases = read_weights(tmp_path / "runs" / "fsdp2" / "export")
    moved = biases["model.layers.1.mlp.gate.e_score_correction_bias"]
    assert float(moved.abs().max()) > 0.01
    # The choices of ten steps, which the biases took part in.
    assert ends[0].routing_sha256 == ends[1].routing_sha256
    assert ends[0].loss == pytest.approx(ends[1].loss, rel=1e-5)


def test_it_refuses_what_it_does_not_do(tmp_path: Path) -> None:
    prepared = tiny.prepare(tmp_path)
    spec = spec_of(prepared, "plain", "plain")
    for change in (
        {"checkpoint": CheckpointSpec(resume_from=str(tmp_path))},
        {"fault": "lr-off-by-one"},
    ):
        with pytest.raises(UsageError, match="without faults"):
            plain.run(dataclasses.replace(spec, **change))  # type: ignore[arg-type]


def test_the_auxiliary_loss_of_micro_batches_is_the_mean_of_theirs() -> None:
    """E / (k T^2) sum_e n_e P_e by hand, for groups of 6 tokens and for all 12."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(12, 4)).astype(np.float32)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    ids = np.argsort(-logits, axis=1)[:, :2].copy()

    def by_hand(rows: slice) -> float:
        counts = np.bincount(ids[rows].ravel(), minlength=4)
        tokens = len(ids[rows])
        return float(4 / (2 * tokens**2) * (counts * shares[rows].sum(0)).sum())

    routed = [Routed(torch.from_numpy(logits), torch.from_numpy(ids))]
    halves = (by_hand(slice(0, 6)) + by_hand(slice(6, 12))) / 2
    assert float(plain.auxiliary_loss(routed, 6)) == pytest.approx(halves, rel=1e-6)
    assert float(plain.auxiliary_loss(routed)) == pytest.approx(by_hand(slice(0, 12)), rel=1e-6)
    assert halves != pytest.approx(by_hand(slice(0, 12)), rel=1e-3)


def test_another_auxiliary_loss_is_refused(tmp_path: Path) -> None:
    spec = spec_of(tiny.prepare(tmp_path), "plain", "plain")
    other = dataclasses.replace(spec.training, aux_loss_formula="sinkhorn")
    with pytest.raises(UsageError, match="sinkhorn"):
        plain.run(dataclasses.replace(spec, training=other))


def test_the_pooled_auxiliary_loss_is_that_of_transformers() -> None:
    from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

    logits = torch.randn(3, 10, 4, generator=torch.Generator().manual_seed(3))
    ids = logits.topk(2, dim=-1).indices
    routed = [Routed(one, chosen) for one, chosen in zip(logits, ids, strict=True)]
    expected = load_balancing_loss_func(tuple(logits), 4, 2)
    assert float(plain.pooled_loss(routed)) == pytest.approx(float(expected), rel=1e-6)
    assert float(plain.auxiliary_loss(routed)) != pytest.approx(float(expected), rel=1e-2)
