"""Whole runs on the fast path against the plain one, one process and two."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from certify.errors import EXIT_USAGE
from certify.records import Component, State, read_run
from certify.runspec import CheckpointSpec, EvidenceSpec, SpeedSpec
from runner import evidence
from tests.runner import tiny
from tests.runner.tiny import Prepared, launch, prepare, steps_of, trained

if TYPE_CHECKING:
    from certify.runspec import RunSpec

pytestmark = pytest.mark.torch

FAST = SpeedSpec(chunked_loss="on", fused_experts="on", attention_kernels="on", chunk_tokens=24)
STEPS = 4


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    tied = {"model_type": "qwen3", "tie_word_embeddings": True}
    return {
        "moe": prepare(tmp_path_factory.mktemp("moe")),
        "tied": prepare(tmp_path_factory.mktemp("tied"), **tied),
        "capped": prepare(
            tmp_path_factory.mktemp("capped"), model_type="gemma2", final_logit_softcapping=30.0
        ),
    }


def spec_of(model: Prepared, name: str, speed: SpeedSpec, ranks: int = 1, **changes: Any) -> Any:
    coefficient = 0.01 if model.hf_config["model_type"] == "qwen3_moe" else 0.0
    training = dataclasses.replace(tiny.TRAINING, aux_loss_coef=coefficient)
    wanted = EvidenceSpec(gradients=True, routing=coefficient > 0)
    given = {"training": training, "evidence": wanted, "stop_step": STEPS, **changes}
    return model.spec(name, ranks=ranks, ep=given.pop("ep", 1), speed=speed, **given)


def in_bfloat16(spec: RunSpec, micro_batch: int = 8) -> RunSpec:
    return dataclasses.replace(
        spec,
        parallel=dataclasses.replace(spec.parallel, param_dtype="bfloat16", ignored_modules=()),
        training=dataclasses.replace(spec.training, micro_batch=micro_batch),
    )


def assert_near(mine: RunSpec, plain: RunSpec, loss: float, norm: float) -> None:
    wanted = steps_of(plain)
    assert len(wanted) == STEPS
    for step, record in steps_of(mine).items():
        assert record.loss == pytest.approx(wanted[step].loss, rel=loss)
        assert record.grad_norm == pytest.approx(wanted[step].grad_norm, rel=norm)
        if wanted[step].aux_loss is not None:
            assert record.aux_loss == pytest.approx(wanted[step].aux_loss, rel=max(loss, 1e-6))


def gradient_error(mine: RunSpec, plain: RunSpec) -> float:
    """The largest relative error of one tensor."""
    first, second = (evidence.read_tensors(s.run_dir, evidence.GRADIENTS) for s in (mine, plain))
    assert set(first) == set(second)
    return max(float((first[k] - t).norm() / (t.norm() + 1e-12)) for k, t in second.items())


def test_float32_equals_the_plain_path(models: dict[str, Prepared]) -> None:
    pairs = [
        (spec_of(models[m], f"{m}-fast", FAST), spec_of(models[m], f"{m}-plain", SpeedSpec()))
        for m in ("moe", "tied")
    ]
    trained(*[spec for pair in pairs for spec in pair], ranks=1)
    for fast, plain in pairs:
        assert_near(fast, plain, 1e-6, 1e-5)
        assert gradient_error(fast, plain) <= 1e-5
    parts = {c.part: c for c in read_run(Path(pairs[0][0].run_dir))[0].of(Component)}
    found = parts["model"].effective["fast"]
    assert found["chunked_loss"] is True
    assert found["compile_blocks"] is False
    assert found["experts_modules"] == 2
    assert parts["loss"].class_name == "linear_cross_entropy_sum"


def test_two_ranks_with_exchanged_tokens_and_a_sharded_tied_head(
    models: dict[str, Prepared],
) -> None:
    pairs = [
        tuple(
            spec_of(models[m], f"{m}-{n}-2", speed, ranks=2, ep=ep)
            for n, speed in (("fast", FAST), ("plain", SpeedSpec()))
        )
        for m, ep in (("moe", 2), ("tied", 1))
    ]
    trained(*[spec for pair in pairs for spec in pair])
    for fast, plain in pairs:
        assert_near(fast, plain, 1e-6, 1e-5)
        assert gradient_error(fast, plain) <= 1e-5


def test_master_weights_train_as_mixed_precision_and_resume(models: dict[str, Prepared]) -> None:
    masters = dataclasses.replace(FAST, master_weights="on")
    saved = CheckpointSpec(save_steps=(2,))
    fast = in_bfloat16(spec_of(models["tied"], "masters", masters, checkpoint=saved))
    plain = in_bfloat16(spec_of(models["tied"], "mixed", SpeedSpec()))
    folder = Path(fast.run_dir) / "checkpoints" / "step-000002"
    again = dataclasses.replace(
        fast,
        run_id="again",
        run_dir=str(Path(fast.run_dir).with_name("again")),
        checkpoint=CheckpointSpec(resume_from=str(folder)),
        evidence=EvidenceSpec(),
    )
    trained(fast, plain, again, ranks=1)
    assert_near(fast, plain, 2e-3, 2e-2)
    assert gradient_error(fast, plain) <= 3e-2
    whole, resumed = steps_of(fast), steps_of(again)
    assert [resumed[s].loss_hex for s in (3, 4)] == [whole[s].loss_hex for s in (3, 4)]
    ends = [read_run(Path(s.run_dir))[0].of(State)[-1].digests for s in (fast, again)]
    assert ends[0]["params"] == ends[1]["params"]


def test_master_weights_on_two_ranks(models: dict[str, Prepared]) -> None:
    masters = dataclasses.replace(FAST, master_weights="on")
    fast = in_bfloat16(spec_of(models["moe"], "masters-2", masters, ranks=2), 4)
    plain = in_bfloat16(spec_of(models["moe"], "mixed-2", SpeedSpec(), ranks=2), 4)
    trained(fast, plain)
    assert_near(fast, plain, 2e-3, 3e-2)


def test_logits_that_are_changed_after_the_head_are_refused(models: dict[str, Prepared]) -> None:
    done = launch(spec_of(models["capped"], "capped", FAST), ranks=1)
    assert done.returncode == EXIT_USAGE
    assert "speed.chunked_loss" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_compiled_blocks_equal_the_plain_path(models: dict[str, Prepared]) -> None:
    # In a graph the grouped GEMM knows bfloat16 alone: the stock experts, in float32.
    stock = dataclasses.replace(FAST, fused_experts="off")
    compiled = dataclasses.replace(stock, compile_blocks="on")
    pairs = [
        (spec_of(models[m], f"{m}-compiled", compiled), spec_of(models[m], f"{m}-eager", stock))
        for m in ("moe", "tied")
    ]
    trained(*[spec for pair in pairs for spec in pair], ranks=1)
    for fast, plain in pairs:
        assert_near(fast, plain, 1e-6, 1e-5)
        assert gradient_error(fast, plain) <= 1e-5
