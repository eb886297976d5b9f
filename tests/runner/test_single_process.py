"""Runs of one rank: parity, dense and tied models, seeded faults, and what a resume refuses.

All are trained by one process, one after another; what they left is then looked at.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from certify.errors import EXIT_USAGE
from certify.records import Component, End, Event, State, read_run
from certify.runspec import CheckpointSpec, EvidenceSpec
from runner import evidence
from runner.faults import FAULTS
from tests.runner import plain
from tests.runner.tiny import TRAINING, Prepared, launch, prepare, steps_of, trained

if TYPE_CHECKING:
    from certify.runspec import RunSpec

pytestmark = pytest.mark.torch

SAVE_STEP = 2
AFTER_RESUME = (
    "adam-moments-not-restored",
    "data-cursor-not-restored",
    "rng-not-restored",
    "batch-duplicated-after-resume",
)
FROM_START = (
    "lr-off-by-one",
    "aux-loss-zero",
    "aux-loss-doubled",
    "grads-averaged",
    "drop-last-sample",
    "wrong-rope-base",
    "router-double-softmax",
    "norm-weights-decayed",
    "last-micro-batch-dropped",
    "padding-in-loss",
    "mean-of-means",
    "bf16-master-weights",
)
EVIDENCE = EvidenceSpec(gradients=True, first_update=True, routing=True)


def one(prepared: Prepared, name: str, **changes: Any) -> RunSpec:
    return prepared.spec(name, ranks=1, ep=1, **{"stop_step": 4, **changes})


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    """Dense models: with a head of its own, and with the head tied to the embedding."""
    return {
        name: prepare(
            tmp_path_factory.mktemp(name), model_type="qwen3", tie_word_embeddings=name == "tied"
        )
        for name in ("untied", "tied")
    }


@pytest.fixture(scope="module")
def runs(prepared: Prepared, dense: dict[str, Prepared]) -> dict[str, RunSpec]:
    saved = CheckpointSpec(save_steps=(SAVE_STEP,))
    right = one(prepared, "right", evidence=EVIDENCE, checkpoint=saved)
    folder = Path(right.run_dir) / "checkpoints" / f"step-{SAVE_STEP:06d}"
    specs = {"right": right}
    for name in FROM_START:
        specs[name] = one(prepared, name, fault=name, evidence=EVIDENCE)
    for name in AFTER_RESUME:
        resume = CheckpointSpec(resume_from=str(folder))
        specs[name] = one(prepared, name, fault=name, checkpoint=resume)
    for name, model in dense.items():
        training = dataclasses.replace(TRAINING, aux_loss_coef=0.0, micro_batch=3)
        specs[name] = one(model, name, training=training, evidence=EVIDENCE)
    trained(*specs.values(), ranks=1)
    return specs


def gradients(spec: RunSpec) -> dict[str, torch.Tensor]:
    return evidence.read_tensors(spec.run_dir, evidence.GRADIENTS)


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> set[str]:
    """Names of equal tensors."""
    return {name for name, tensor in first.items() if torch.equal(tensor, second[name])}


def test_one_rank_trains_as_the_plain_process(runs: dict[str, RunSpec]) -> None:
    wanted = plain.train(runs["right"], 4)
    for step, record in steps_of(runs["right"]).items():
        assert record.loss == pytest.approx(wanted.loss[step - 1], rel=1e-6)
        assert record.grad_norm == pytest.approx(wanted.grad_norm[step - 1], rel=1e-5)


@pytest.mark.parametrize("name", ["untied", "tied"])
def test_dense_models_need_no_conversion(name: str, runs: dict[str, RunSpec]) -> None:
    spec = runs[name]
    wanted = plain.train(spec, 4)
    for step, record in steps_of(spec).items():
        assert record.loss == pytest.approx(wanted.loss[step - 1], rel=1e-6)
        assert record.grad_norm == pytest.approx(wanted.grad_norm[step - 1], rel=1e-5)
        assert record.aux_loss is None
        assert record.routing_sha256 is None
    found = gradients(spec)
    assert ("lm_head.weight" in found) == (name == "untied")
    for key, gradient in wanted.gradients.items():
        torch.testing.assert_close(found[key], gradient, rtol=1e-4, atol=1e-7)
    assert not evidence.evidence_path(spec.run_dir, evidence.ROUTING).exists()
    state = read_run(Path(spec.run_dir))[0].of(State)[0]
    assert state.digests["params"] == spec.model.weights_digest


def test_every_fault_of_the_candidate_is_recorded_when_injected(runs: dict[str, RunSpec]) -> None:
    for name in (*FROM_START, *AFTER_RESUME):
        file = read_run(Path(runs[name].run_dir))[0]
        injected = [e.detail["fault"] for e in file.of(Event) if e.name == "fault_injected"]
        assert injected == [name]
        assert file.of(End)[0].status == "completed"
    # Need several ranks, or (the last ones) more steps, tied embeddings, a bias of routers.
    elsewhere = {
        "collective-wrong",
        "expert-grads-scaled",
        "clip-before-reduce",
        "clip-per-expert-group",
        "expert-shard-swapped",
        "expert-block-lost",
        "vocabulary-rows-lost",
        "nan-printed-as-zero",
        "tied-untied-by-load",
        "router-bias-not-saved",
    }
    of_mcore = {"shared-adam-step", "tensor-parallel-unset"}  # tests/runner/mcore/test_layouts.py
    tried = {*FROM_START, *AFTER_RESUME, *elsewhere, *of_mcore}
    assert tried == {name for name, fault in FAULTS.items() if fault.side == "candidate"}


def test_lr_off_by_one(runs: dict[str, RunSpec]) -> None:
    right, wrong = steps_of(runs["right"]), steps_of(runs["lr-off-by-one"])
    assert [wrong[s].lr for s in (1, 2, 3)] == [right[s].lr for s in (2, 3, 4)]
    assert wrong[1].loss_hex == right[1].loss_hex


@pytest.mark.parametrize("name", ["aux-loss-zero", "aux-loss-doubled"])
def test_aux_loss_faults_change_gradients_and_not_what_is_declared(
    name: str, runs: dict[str, RunSpec]
) -> None:
    right, wrong = runs["right"], runs[name]
    assert steps_of(wrong)[1].loss_hex == steps_of(right)[1].loss_hex
    assert steps_of(wrong)[1].aux_loss == steps_of(right)[1].aux_loss
    key = "model.layers.1.mlp.gate.weight"
    assert not torch.allclose(gradients(wrong)[key], gradients(right)[key], rtol=1e-3)
    parts = [c for c in read_run(Path(wrong.run_dir))[0].of(Component) if c.part == "model"]
    assert parts[0].effective["aux_loss_coef"] == TRAINING.aux_loss_coef


def test_grads_averaged_halves_every_gradient(runs: dict[str, RunSpec]) -> None:
    right, wrong = gradients(runs["right"]), gradients(runs["grads-averaged"])
    assert same(wrong, {name: tensor / 2 for name, tensor in right.items()}) == set(right)


def test_drop_last_sample_keeps_the_counts(runs: dict[str, RunSpec]) -> None:
    right, wrong = steps_of(runs["right"])[1], steps_of(runs["drop-last-sample"])[1]
    assert wrong.supervised_tokens == right.supervised_tokens
    assert wrong.mask_sha256 == right.mask_sha256
    assert abs(wrong.loss - right.loss) > 1e-3


def test_the_mean_is_taken_over_other_tokens(runs: dict[str, RunSpec]) -> None:
    right = steps_of(runs["right"])[1]
    for name in ("padding-in-loss", "last-micro-batch-dropped"):
        assert abs(steps_of(runs[name])[1].loss - right.loss) > 1e-3
    # What is recorded is still the token mean: only the gradients differ.
    assert steps_of(runs["mean-of-means"])[1].loss_hex == right.loss_hex
    for name in ("padding-in-loss", "last-micro-batch-dropped", "mean-of-means"):
        wrong = steps_of(runs[name])[1]
        assert abs(wrong.grad_norm / right.grad_norm - 1) > 1e-3
        assert wrong.supervised_tokens == right.supervised_tokens


def test_weights_in_bf16_hold_nothing_finer(runs: dict[str, RunSpec]) -> None:
    tensors = evidence.read_tensors(runs["bf16-master-weights"].run_dir, evidence.PARAMETERS)
    assert all(torch.equal(t, t.bfloat16().float()) for t in tensors.values())


def test_a_batch_is_trained_on_again(runs: dict[str, RunSpec]) -> None:
    again = steps_of(runs["batch-duplicated-after-resume"])[SAVE_STEP + 1]
    assert again.batch == SAVE_STEP - 1


def test_wrong_rope_base_and_double_softmax_change_the_forward(runs: dict[str, RunSpec]) -> None:
    right = steps_of(runs["right"])[1]
    for name in ("wrong-rope-base", "router-double-softmax"):
        assert abs(steps_of(runs[name])[1].loss - right.loss) > 1e-4
    # The second softmax keeps the order: the first layer chooses the same experts.
    routing = [
        evidence.read_routing(runs[n].run_dir).ids[0, 0] for n in ("right", "router-double-softmax")
    ]
    assert np.array_equal(*routing)


def test_norm_weights_decayed_changes_norms_only(runs: dict[str, RunSpec]) -> None:
    first, second = (
        evidence.read_tensors(runs[n].run_dir, evidence.PARAMETERS)
        for n in ("right", "norm-weights-decayed")
    )
    norms = {n for n in first if "norm" in n}
    assert set(first) - same(first, second) == norms
    # What plan-followed compares with the plan.
    right, wrong = (
        c.effective["decayed_parameters"]
        for n in ("right", "norm-weights-decayed")
        for c in read_run(Path(runs[n].run_dir))[0].of(Component)
        if c.part == "optimizer"
    )
    assert wrong - right == sum(first[n].numel() for n in norms)


def test_the_generators_differ_between_init_save_and_end(runs: dict[str, RunSpec]) -> None:
    states = read_run(Path(runs["right"].run_dir))[0].of(State)
    assert [s.at for s in states] == ["init", "save", "end"]
    assert len({s.digests["rng.rank-0"] for s in states}) == 3


def test_faults_of_a_resume_change_the_state_after_load(runs: dict[str, RunSpec]) -> None:
    saved = next(s for s in read_run(Path(runs["right"].run_dir))[0].of(State) if s.at == "save")
    changed = {
        "adam-moments-not-restored": {"exp_avg", "exp_avg_sq"},
        "data-cursor-not-restored": {"data_cursor"},
        "rng-not-restored": {"rng.rank-0"},
    }
    for name, parts in changed.items():
        loaded = next(s for s in read_run(Path(runs[name].run_dir))[0].of(State) if s.at == "load")
        differ = {p for p, d in saved.digests.items() if loaded.digests[p] != d}
        assert differ == parts


def damaged(spec: RunSpec, folder: Path) -> Path:
    """A copy of the committed checkpoint, to be damaged."""
    source = Path(spec.run_dir) / "checkpoints" / f"step-{SAVE_STEP:06d}"
    shutil.copytree(source, folder)
    return folder


def test_a_damaged_checkpoint_is_refused_by_name(
    prepared: Prepared, runs: dict[str, RunSpec], tmp_path: Path
) -> None:
    flipped = damaged(runs["right"], tmp_path / "flipped")
    data = next(flipped.glob("*.distcp"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    partial = damaged(runs["right"], tmp_path / "partial")
    (partial / "COMMIT.json").unlink()
    runs_from = [
        one(prepared, f"from-{folder.name}", checkpoint=CheckpointSpec(resume_from=str(folder)))
        for folder in (flipped, partial)
    ]
    done = launch(*runs_from, ranks=1)
    assert done.returncode == EXIT_USAGE
    assert "Traceback" not in done.stderr
    for spec, file in zip(runs_from, (data, partial / "COMMIT.json"), strict=True):
        assert f"where: {file}" in done.stderr
        records = read_run(Path(spec.run_dir))[0]
        assert records.of(End)[0].status == "failed"
        assert not records.steps()
