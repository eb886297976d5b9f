"""What a run of the backend records, and that it is Megatron's code that ran."""

from __future__ import annotations

import hashlib
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from certify import records
from certify.recipes.schedule import learning_rate
from runner.backends.mcore import cpu
from runner.data.batches import Batches
from tests.runner.mcore import plain_loop, tiny

if TYPE_CHECKING:
    from tests.runner.mcore.tiny import Run

pytestmark = pytest.mark.torch


def test_order_of_records(moe: Run) -> None:
    kinds = [record.kind for record in moe.file.records]
    start = ["header", "environment", "topology", *["component"] * 4, "modules", "state"]
    assert kinds == [*start, *["step"] * 30, "state", "end"]
    end = moe.file.last(records.End)
    assert end is not None
    assert (end.status, end.steps) == ("completed", 30)


def test_steps_follow_the_plan(moe: Run, masked: Run) -> None:
    for run in (moe, masked):
        spec = run.spec
        batches = Batches(spec.data, spec.training.global_batch)
        for number, step in run.file.steps().items():
            batch = batches.read(number - 1)
            assert step.lr == pytest.approx(plain_loop.rate(spec.training, number), rel=1e-14)
            assert step.lr == learning_rate(spec.training, number), "the plan's, to the last bit"
            assert step.batch == number - 1
            assert step.tokens == tiny.BATCH * tiny.SEQ
            assert step.supervised_tokens == int(batch.mask.sum())
            assert step.tokens_sha256 == records.batch_digest(batch.token_digests())
            assert step.mask_sha256 == records.batch_digest(batch.mask_digests())
            assert float.fromhex(step.loss_hex) == step.loss
            assert float.fromhex(step.grad_norm_hex) == step.grad_norm
    assert moe.file.steps()[30].lr == moe.spec.training.min_lr


def test_initial_weights_are_the_planned_ones(moe: Run) -> None:
    first, last = moe.file.of(records.State)
    assert (first.at, first.step, last.at, last.step) == ("init", 0, "end", 30)
    assert first.digests["params"] == moe.spec.model.weights_digest
    assert last.digests["params"] != first.digests["params"]
    assert last.digests["rng.rank-0"] != first.digests["rng.rank-0"]
    assert {"exp_avg", "exp_avg_sq", "optimizer_step", "lr", "weight_decay"} <= set(last.digests)


def test_the_reference_is_megatron(moe: Run) -> None:
    (modules,) = moe.file.of(records.Modules)
    assert "megatron" in modules.loaded
    assert "transformers" not in modules.loaded
    assert not [name for name in modules.trained_classes if "transformers" in name]
    assert "megatron.core.models.gpt.gpt_model.GPTModel" in modules.trained_classes
    assert "megatron.core.transformer.moe.router.TopKRouter" in modules.trained_classes
    found = {component.part: component for component in moe.file.of(records.Component)}
    assert {part: component.class_name for part, component in found.items()} == {
        "model": "GPTModel",
        "optimizer": "FP32Optimizer",
        "scheduler": "OptimizerParamScheduler",
        "loss": "VocabParallelCrossEntropy",
    }
    installed = distribution("megatron-core")
    for component in found.values():
        source = Path(str(installed.locate_file(component.file)))
        assert component.version == installed.version
        assert component.source_sha256 == hashlib.sha256(source.read_bytes()).hexdigest()


def test_effective_values(moe: Run) -> None:
    found = {c.part: c.effective for c in moe.file.of(records.Component)}
    training = moe.spec.training
    for key in ("beta1", "beta2", "eps", "weight_decay", "clip_grad"):
        assert found["optimizer"][key] == getattr(training, key)
    # Everything but the norms' weights: no tensor of one dimension decays.
    norms = found["model"]["num_parameters"] - found["optimizer"]["decayed_parameters"]
    assert 0 < norms < found["model"]["num_parameters"] / 50
    assert found["model"]["aux_loss_coef"] == training.aux_loss_coef
    assert found["model"]["aux_loss_formula"] == "megatron"
    (environment,) = moe.file.of(records.Environment)
    assert environment.effective["deterministic_algorithms"] is True
    assert environment.effective["megatron_patches"] == [p.target for p in cpu.PATCHES]


def test_nothing_is_printed(moe: Run) -> None:
    assert moe.stderr == ""


def test_a_second_run_is_bitwise_the_same(moe: Run) -> None:
    second = tiny.again(moe, "again", stop_step=5).file.steps()
    first = moe.file.steps()
    assert len(second) == 5
    for number, step in second.items():
        assert step.loss_hex == first[number].loss_hex
        assert step.grad_norm_hex == first[number].grad_norm_hex
        assert step.routing_sha256 == first[number].routing_sha256
