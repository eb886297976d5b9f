"""FSDP2 x expert parallel on two processes against the plain loop, and everything a run writes.

One launch trains all two-rank runs one after another; the tests look at what they left.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from certify.records import (
    Collective,
    Component,
    End,
    Environment,
    Event,
    Header,
    Modules,
    State,
    Topology,
    control_streams,
    read_run,
)
from certify.runspec import CheckpointSpec, EvidenceSpec
from runner import evidence
from tests.runner import plain
from tests.runner.tiny import SEQ_LENGTH, TRAINING, Prepared, launch, steps_of, trained

if TYPE_CHECKING:
    from certify.runspec import RunSpec

pytestmark = pytest.mark.torch

SAVE_STEP = 6
STATE_PARTS = {
    "params", "exp_avg", "exp_avg_sq", "optimizer_step", "lr", "weight_decay", "data_cursor",
    "rng.rank-0", "rng.rank-1",
}  # fmt: skip
CLASSES = {
    "embedding": "embed_tokens",
    "attention": "self_attn",
    "router": "mlp.gate.",
    "expert": ".experts.",
    "norm": "norm.weight",
    "head": "lm_head",
}


@pytest.fixture(scope="module")
def runs(prepared: Prepared) -> dict[str, RunSpec]:
    """Every two-rank run of this file, trained in one launch."""
    everything = EvidenceSpec(
        probe_file=str(prepared.folder / "probe.npy"),
        probe_rows=20,
        gradients=True,
        first_update=True,
        routing=True,
    )
    saved = CheckpointSpec(save_steps=(SAVE_STEP,))
    pooled = dataclasses.replace(TRAINING, aux_loss_formula="pooled")
    accumulating = dataclasses.replace(TRAINING, micro_batch=1)
    first = prepared.spec("first", evidence=everything, checkpoint=saved)
    checkpoint = Path(first.run_dir) / "checkpoints" / f"step-{SAVE_STEP:06d}"
    controls = ("optimizer-dropped", "data-cursor-dropped")
    specs = {
        "first": first,
        "again": prepared.spec("again"),
        "dense-experts": prepared.spec("dense-experts", ep=1, evidence=everything),
        "accumulating": prepared.spec("accumulating", training=accumulating, evidence=everything),
        "pooled": prepared.spec("pooled", training=pooled, evidence=everything),
        "resumed": prepared.spec(
            "resumed",
            checkpoint=CheckpointSpec(resume_from=str(checkpoint)),
            evidence=EvidenceSpec(controls=controls, control_steps=2),
        ),
        "scaled": prepared.spec(
            "scaled", fault="expert-grads-scaled", evidence=everything, stop_step=2
        ),
    }
    recomputing = prepared.spec("recomputing", evidence=everything)
    specs["recomputing"] = dataclasses.replace(
        recomputing,
        parallel=dataclasses.replace(
            recomputing.parallel,
            recompute_modules=("model.layers.{*}",),
            reshard_after_forward=False,
        ),
    )
    trained(*specs.values())
    return specs


@pytest.fixture(scope="module")
def reference(runs: dict[str, RunSpec]) -> plain.Trajectory:
    return plain.train(runs["first"], TRAINING.steps)


def worst_class_error(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """The largest relative Frobenius error over parameter classes."""
    assert found.keys() == wanted.keys()
    errors = []
    for pattern in CLASSES.values():
        names = [name for name in wanted if pattern in name]
        assert names
        difference = sum(float((found[n] - wanted[n]).double().square().sum()) for n in names)
        size = sum(float(wanted[n].double().square().sum()) for n in names)
        errors.append((difference / size) ** 0.5)
    return max(errors)


@pytest.mark.parametrize("name", ["first", "dense-experts", "accumulating", "recomputing"])
def test_trains_as_one_plain_process(
    name: str, runs: dict[str, RunSpec], reference: plain.Trajectory
) -> None:
    spec = runs[name]
    steps = steps_of(spec)
    assert list(steps) == list(range(1, TRAINING.steps + 1))
    for step, record in steps.items():
        i = step - 1
        assert record.loss == pytest.approx(reference.loss[i], rel=1e-6)
        assert record.grad_norm == pytest.approx(reference.grad_norm[i], rel=1e-5)
        assert record.aux_loss == pytest.approx(reference.aux[i], rel=1e-5)
        assert record.lr == pytest.approx(reference.lr[i], rel=1e-12)
    gradients = evidence.read_tensors(spec.run_dir, evidence.GRADIENTS)
    assert worst_class_error(gradients, reference.gradients) <= 1e-5
    updated = evidence.read_tensors(spec.run_dir, evidence.PARAMETERS)
    assert worst_class_error(updated, reference.parameters) <= 1e-5
    routing = evidence.read_routing(spec.run_dir)
    assert np.array_equal(routing.ids, np.stack(reference.chosen))
    assert routing.steps.tolist() == list(steps)
    assert evidence.routing_digest(routing.ids[0]) == steps[1].routing_sha256


def test_pooled_auxiliary_loss_is_that_of_transformers(runs: dict[str, RunSpec]) -> None:
    spec = runs["pooled"]
    wanted = plain.train(spec, 3)
    steps = steps_of(spec)
    for i in range(3):
        assert steps[i + 1].aux_loss == pytest.approx(wanted.aux[i], rel=1e-5)
        assert steps[i + 1].grad_norm == pytest.approx(wanted.grad_norm[i], rel=1e-5)
    gradients = evidence.read_tensors(spec.run_dir, evidence.GRADIENTS)
    assert worst_class_error(gradients, wanted.gradients) <= 1e-5


def test_scaled_expert_gradients_show_in_their_class_only(
    runs: dict[str, RunSpec], reference: plain.Trajectory
) -> None:
    found = evidence.read_tensors(runs["scaled"].run_dir, evidence.GRADIENTS)
    for name, wanted in reference.gradients.items():
        factor = 2.0 if ".experts." in name else 1.0
        torch.testing.assert_close(found[name], wanted * factor, rtol=1e-4, atol=1e-7)


def test_the_probe_is_the_stock_forward_of_the_initial_weights(
    runs: dict[str, RunSpec], prepared: Prepared
) -> None:
    spec = runs["first"]
    tokens = torch.from_numpy(np.load(prepared.folder / "probe.npy")).long()
    with torch.no_grad():
        result = plain.load(spec)(input_ids=tokens[:, :-1], output_router_logits=True)
    logits = result.logits.flatten(0, 1)
    probe = evidence.read_probe(spec.run_dir)
    n = logits.shape[0]
    assert n == 7 * SEQ_LENGTH  # an odd number of samples over two ranks
    assert np.array_equal(probe.argmax, logits.argmax(-1).numpy())
    wanted = logits.log_softmax(-1).gather(-1, tokens[:, 1:].flatten()[:, None])[:, 0]
    np.testing.assert_allclose(probe.label_logprob, wanted.numpy(), atol=1e-5)
    np.testing.assert_allclose(probe.lse, logits.logsumexp(-1).numpy(), atol=1e-5)
    best = logits.sort(-1, descending=True).values
    np.testing.assert_allclose(probe.gap, (best[:, 0] - best[:, 1]).numpy(), atol=1e-5)
    assert np.array_equal(probe.row_index, evidence.probe_row_index(n, 20))
    np.testing.assert_allclose(probe.rows, logits[probe.row_index].numpy(), atol=1e-5)
    assert sorted(probe.topk) == [0, 1]
    for layer, router in enumerate(result.router_logits):
        top = router.softmax(-1).sort(-1, descending=True)
        assert np.array_equal(probe.topk[layer], top.indices[:, :2].sort(-1).values.numpy())
        gap = (top.values[:, 1] - top.values[:, 2]).numpy()
        np.testing.assert_allclose(probe.topk_gap[layer], gap, atol=1e-6)


def test_two_runs_agree_bitwise_and_so_do_ranks(runs: dict[str, RunSpec]) -> None:
    first, again = steps_of(runs["first"]), steps_of(runs["again"])
    for step, record in first.items():
        other = steps_of(runs["first"], rank=1)[step]
        for found in (again[step], other):
            assert (found.loss_hex, found.grad_norm_hex) == (
                record.loss_hex,
                record.grad_norm_hex,
            )
            assert found.tokens_sha256 == record.tokens_sha256
    ends = [read_run(Path(runs[n].run_dir))[0].of(State)[-1] for n in ("first", "again")]
    assert ends[0] == ends[1]
    assert (ends[0].at, ends[0].step) == ("end", TRAINING.steps)


def test_a_resumed_run_continues_bitwise(runs: dict[str, RunSpec]) -> None:
    first, resumed = (read_run(Path(runs[n].run_dir)) for n in ("first", "resumed"))
    for rank in (0, 1):
        states = {s.at: s for s in first[rank].of(State)}
        loaded = {s.at: s for s in resumed[rank].of(State)}
        assert list(states) == ["init", "save", "end"]
        assert list(loaded) == ["init", "load", "end"]
        assert loaded["load"].digests == states["save"].digests
        assert loaded["end"] == states["end"]
        assert set(states["save"].digests) == STATE_PARTS
        generators = [s.digests[f"rng.rank-{r}"] for s in states.values() for r in (0, 1)]
        assert len(set(generators)) == 6, "of every rank and of every time"
        wanted = {k: v for k, v in first[rank].steps().items() if k > SAVE_STEP}
        found = resumed[rank].steps()
        assert found.keys() == wanted.keys()
        for step, record in found.items():
            assert record.loss_hex == wanted[step].loss_hex
            assert record.grad_norm_hex == wanted[step].grad_norm_hex
            assert record.batch == wanted[step].batch


def test_negative_controls_depart_from_the_run(runs: dict[str, RunSpec]) -> None:
    folder = Path(runs["resumed"].run_dir)
    assert control_streams(folder) == ["control-data-cursor-dropped", "control-optimizer-dropped"]
    wanted = steps_of(runs["first"])
    for stream in control_streams(folder):
        for file in read_run(folder, stream):
            kinds = {type(record) for record in file.records}
            assert kinds == {Header, Event, type(wanted[1])}
            assert [e.name for e in file.of(Event)] == ["control_started"]
            steps = file.steps()
            assert list(steps) == [SAVE_STEP + 1, SAVE_STEP + 2]
            assert steps[SAVE_STEP + 2].loss_hex != wanted[SAVE_STEP + 2].loss_hex
    cursor = steps_of(runs["resumed"], stream="control-data-cursor-dropped")
    assert cursor[SAVE_STEP + 1].tokens_sha256 == wanted[1].tokens_sha256
    # Without moments the first loss is that of the right weights, the first update is not.
    dropped = steps_of(runs["resumed"], stream="control-optimizer-dropped")
    assert dropped[SAVE_STEP + 1].loss_hex == wanted[SAVE_STEP + 1].loss_hex


def test_records_say_what_ran(runs: dict[str, RunSpec], prepared: Prepared) -> None:
    spec = runs["first"]
    for rank, file in enumerate(read_run(Path(spec.run_dir))):
        assert not file.truncated
        assert (file.header.rank, file.header.world_size) == (rank, 2)
        environment = file.of(Environment)[0]
        assert environment.effective["deterministic_algorithms"] is True
        assert environment.effective["threads"] == 1
        assert environment.packages["torch"] == torch.__version__
        topology = file.of(Topology)[0]
        assert topology.groups["world"] == topology.groups["ep"] == [0, 1]
        assert topology.groups["fsdp"] == [0, 1]
        assert topology.groups["ep_fsdp"] == [rank]
        collectives = file.of(Collective)
        assert all(c.ok for c in collectives)
        assert {"all_reduce_sum", "reduce_scatter_sum", "all_gather", "all_to_all_uneven",
                "broadcast", "all_reduce_max", "fsdp_gradient_sum"} == {
            c.op for c in collectives
        }  # fmt: skip
        parts = {c.part: c for c in file.of(Component)}
        assert sorted(parts) == ["loss", "model", "optimizer", "scheduler"]
        assert parts["model"].class_name == "Qwen3MoeForCausalLM"
        assert parts["model"].package == "transformers"
        assert parts["optimizer"].class_name == "AdamW"
        assert parts["optimizer"].effective["weight_decay"] == TRAINING.weight_decay
        size = sum(p.numel() for p in plain.load(spec).parameters())
        assert parts["model"].effective["num_parameters"] == size
        assert parts["model"].effective["aux_loss_coef"] == TRAINING.aux_loss_coef
        modules = file.of(Modules)[0]
        assert "megatron" not in modules.loaded
        owner = "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeExperts"
        assert owner in modules.trained_classes
        assert file.of(State)[0].digests["params"] == prepared.weights_digest
        unmatched = [e for e in file.of(Event) if e.name == "pattern_unmatched"]
        assert [e.detail["pattern"] for e in unmatched] == ["model.layers.{*}.mlp.router"]
        assert file.of(End)[0].status == "completed"


def test_counts_and_digests_are_those_of_the_global_batch(runs: dict[str, RunSpec]) -> None:
    from certify.records import batch_digest
    from runner.data.batches import Batches

    spec = runs["first"]
    batches = Batches(spec.data, TRAINING.global_batch)
    for step, record in steps_of(spec).items():
        batch = batches.read(step - 1)
        assert record.batch == step - 1
        assert record.tokens == TRAINING.global_batch * SEQ_LENGTH
        assert record.supervised_tokens == batch.supervised_tokens
        assert record.tokens_sha256 == batch_digest(batch.token_digests())
        assert record.mask_sha256 == batch_digest(batch.mask_digests())


def test_four_ranks_shard_the_experts_too(
    prepared: Prepared, runs: dict[str, RunSpec], reference: plain.Trajectory
) -> None:
    """ep 2 x ep_fsdp 2; replicas of everything; and a checkpoint of two ranks on four."""
    everything = runs["dense-experts"].evidence
    training = dataclasses.replace(TRAINING, micro_batch=2)
    spec = prepared.spec("ep-fsdp", ranks=4, evidence=everything, training=training, stop_step=4)
    sharded = dataclasses.replace(spec, parallel=dataclasses.replace(spec.parallel, ep_fsdp_size=2))
    other = prepared.spec("hybrid", ranks=4, evidence=everything, training=training, stop_step=4)
    hybrid = dataclasses.replace(
        other, parallel=dataclasses.replace(other.parallel, fsdp_size=2, replicate_size=2)
    )
    checkpoint = Path(runs["first"].run_dir) / "checkpoints" / f"step-{SAVE_STEP:06d}"
    resharded = dataclasses.replace(
        sharded,
        run_dir=str(prepared.folder / "runs" / "resharded"),
        evidence=EvidenceSpec(),
        checkpoint=CheckpointSpec(resume_from=str(checkpoint)),
        stop_step=SAVE_STEP + 1,
    )
    trained(sharded, hybrid, resharded, ranks=4)
    for run in (sharded, hybrid):
        for step, record in steps_of(run, rank=3).items():
            assert record.loss == pytest.approx(reference.loss[step - 1], rel=1e-6)
            assert record.grad_norm == pytest.approx(reference.grad_norm[step - 1], rel=1e-5)
        gradients = evidence.read_tensors(run.run_dir, evidence.GRADIENTS)
        assert worst_class_error(gradients, reference.gradients) <= 1e-5
    loaded = read_run(Path(resharded.run_dir))[3].of(State)[1].digests
    saved = read_run(Path(runs["first"].run_dir))[0].of(State)[1].digests
    for part in ("params", "exp_avg", "exp_avg_sq", "optimizer_step", "data_cursor"):
        assert loaded[part] == saved[part]
    wanted = steps_of(runs["first"])[SAVE_STEP + 1]
    found = steps_of(resharded)[SAVE_STEP + 1]
    assert found.loss == pytest.approx(wanted.loss, rel=1e-5)
    assert found.tokens_sha256 == wanted.tokens_sha256


def test_a_wrong_collective_stops_every_rank_before_training(prepared: Prepared) -> None:
    spec = prepared.spec("wrong", fault="collective-wrong")
    done = launch(spec)
    assert done.returncode != 0
    assert "a collective returns wrong values: all_reduce_sum on world" in done.stderr
    for file in read_run(Path(spec.run_dir)):
        assert not all(c.ok for c in file.of(Collective))
        assert not file.steps()
        assert file.of(End)[0].status == "failed"
    assert json.loads(Path(spec.run_dir, "spec.json").read_text())["fault"] == spec.fault
