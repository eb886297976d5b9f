"""Megatron-Core's trajectory against stock transformers trained by a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from reference_runs.oracle import Oracle, read_weights
from runner import evidence
from tests.runner.mcore import plain_loop, tiny

if TYPE_CHECKING:
    from tests.runner.mcore.tiny import Run

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def plain(moe: Run, tmp_path_factory: pytest.TempPathFactory) -> plain_loop.Trajectory:
    return plain_loop.train(moe.spec, tmp_path_factory.mktemp("plain"))


def probe_logits(spec: Any) -> tuple[evidence.Probe, torch.Tensor]:
    """What the run wrote, and stock transformers' logits at the same rows."""
    found = evidence.read_probe(spec.run_dir)
    tokens = torch.from_numpy(np.load(spec.evidence.probe_file).astype("int64"))
    model = tiny.stock_model(spec.model.hf_config, Path(spec.model.weights_dir)).eval()
    with torch.no_grad():
        logits = model(tokens[:, :-1]).logits.flatten(0, 1)
    return found, logits


def worst(mine: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Largest relative Frobenius difference of a tensor."""
    assert set(mine) == set(other)
    return max(float((mine[n] - other[n]).norm() / other[n].norm().clamp_min(1e-12)) for n in mine)


def test_forward_of_the_initial_weights(moe: Run) -> None:
    assert moe.code == 0, moe.stderr
    found, logits = probe_logits(moe.spec)
    assert len(found.row_index) == 6 * tiny.SEQ
    rows = torch.from_numpy(found.rows)
    assert float((rows - logits[found.row_index]).abs().max()) <= 2e-6 * float(logits.abs().max())
    assert np.array_equal(found.argmax, logits.argmax(-1).numpy())
    labels = np.load(moe.spec.evidence.probe_file)[:, 1:].reshape(-1, 1).astype("int64")
    expected = logits.log_softmax(-1).gather(1, torch.from_numpy(labels))[:, 0]
    assert found.label_logprob == pytest.approx(expected.numpy(), abs=1e-5)


def test_thirty_losses_with_auxiliary_loss(moe: Run, plain: plain_loop.Trajectory) -> None:
    steps = moe.file.steps()
    assert sorted(steps) == list(range(1, 31))
    assert [s.loss for s in steps.values()] == pytest.approx(plain.losses, abs=1e-5)
    assert [s.grad_norm for s in steps.values()] == pytest.approx(plain.norms, rel=1e-4)
    assert [s.aux_loss for s in steps.values()] == pytest.approx(plain.aux, rel=1e-5)
    assert steps[30].loss < steps[1].loss - 0.5, "it must learn for the comparison to say much"


def test_router_decisions(moe: Run, plain: plain_loop.Trajectory) -> None:
    found = evidence.read_routing(moe.spec.run_dir)
    expected = np.stack([torch.stack(layers).numpy() for layers in plain.routes])
    assert found.ids.shape == (30, 2, tiny.BATCH * tiny.SEQ, 2)
    differs = (found.ids != expected).any(-1)
    assert not (differs & (found.gap > 1e-5)).any(), "sets may differ at near-ties only"
    assert differs.mean() < 1e-3
    steps = moe.file.steps()
    for number, ids in zip(found.steps.tolist(), found.ids, strict=True):
        assert steps[number].routing_sha256 == evidence.routing_digest(ids)


def test_gradients_before_clipping(moe: Run, plain: plain_loop.Trajectory) -> None:
    mine = evidence.read_tensors(moe.spec.run_dir, evidence.GRADIENTS)
    assert worst(mine, plain.gradients) <= 1e-4
    norm = torch.stack([g.double().square().sum() for g in mine.values()]).sum().sqrt()
    assert moe.file.steps()[1].grad_norm == pytest.approx(float(norm), rel=1e-6)
    assert float(norm) > moe.spec.training.clip_grad, "else clipping would not show"


def test_parameters_after_the_first_update(moe: Run, plain: plain_loop.Trajectory) -> None:
    mine = evidence.read_tensors(moe.spec.run_dir, evidence.PARAMETERS)
    assert worst(mine, plain.parameters) <= 1e-5


def test_unequal_micro_batches_divide_by_all_tokens(masked: Run, tmp_path: Path) -> None:
    assert masked.code == 0, masked.stderr
    expected = plain_loop.train(masked.spec, tmp_path)
    steps = masked.file.steps()
    assert [s.loss for s in steps.values()] == pytest.approx(expected.losses, abs=1e-5)
    assert [s.grad_norm for s in steps.values()] == pytest.approx(expected.norms, rel=1e-4)
    assert all(s.supervised_tokens < s.tokens and s.aux_loss is None for s in steps.values())
    mine = evidence.read_tensors(masked.spec.run_dir, evidence.GRADIENTS)
    assert worst(mine, expected.gradients) <= 1e-4


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("llama", {}),
        ("qwen2", {"tie_word_embeddings": True}),
        (
            "qwen3_moe",
            {"mlp_only_layers": [0], "norm_topk_prob": False, "num_experts_per_tok": 3},
        ),
    ],
    ids=["llama", "qwen2-tied", "moe-mixed-layers-not-normalised"],
)
def test_other_families(
    megatron: None, tmp_path: Path, model_type: str, changes: dict[str, Any]
) -> None:
    spec = tiny.make_spec(tmp_path, tiny.hf_config(model_type, **changes), 2)
    run = tiny.start(spec)
    assert run.code == 0, run.stderr
    found, logits = probe_logits(spec)
    rows = torch.from_numpy(found.rows)
    assert float((rows - logits).abs().max()) <= 2e-6 * float(logits.abs().max())
    expected = plain_loop.train(spec, tmp_path / "plain")
    steps = run.file.steps()
    assert [s.loss for s in steps.values()] == pytest.approx(expected.losses, abs=1e-5)
    assert [s.grad_norm for s in steps.values()] == pytest.approx(expected.norms, rel=1e-4)
    oracle = Oracle(spec.model.hf_config, read_weights(spec.model.weights_dir))
    exact = oracle.forward(torch.from_numpy(np.load(spec.evidence.probe_file)[:, :-1]).long())
    assert sorted(found.topk) == sorted(exact.topk)
    for layer, ids in found.topk.items():
        near = exact.topk_gap[layer].numpy() < 1e-5
        assert ((ids == exact.topk[layer].numpy()).all(-1) | near).all()
        assert found.topk_gap[layer] == pytest.approx(exact.topk_gap[layer].numpy(), abs=1e-5)
