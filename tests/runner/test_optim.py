"""The schedule, parameter groups, clipping and the auxiliary loss against plain formulas."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from certify.errors import UsageError
from runner import loss, optim
from runner.backends import plain
from runner.faults import NO_FAULT
from runner.names import Names
from runner.parallel.shards import Shard
from runner.routing import Routed
from tests.runner.tiny import TRAINING

pytestmark = pytest.mark.torch


def shard(name: str, value: torch.Tensor, copies: int = 1) -> Shard:
    local = torch.nn.Parameter(value)
    return Shard(name, local, local, None, (), tuple(value.shape), copies, False, False)


def rates(**changes: Any) -> list[float]:
    training = dataclasses.replace(TRAINING, **changes)
    rate = optim.LearningRate(training)
    return [rate(index) for index in range(13)]


def test_cosine_schedule_by_hand() -> None:
    found = rates(lr=1.0, min_lr=0.2, warmup_init_lr=0.1, warmup_steps=3, decay_steps=11)
    assert found[:4] == pytest.approx([0.1, 0.4, 0.7, 1.0])
    assert found[7] == pytest.approx(0.6)  # half way down
    assert found[5] == pytest.approx(0.2 + 0.4 * (1 + math.cos(math.pi / 4)))
    assert found[11] == pytest.approx(0.2)
    assert found[12] == 0.2


def test_other_schedules_and_no_warmup() -> None:
    linear = rates(schedule="linear", lr=1.0, min_lr=0.0, warmup_steps=0, decay_steps=10)
    assert linear[:11] == pytest.approx([1 - i / 10 for i in range(11)])
    assert linear[11] == 0.0
    constant = rates(schedule="constant", lr=0.5, warmup_init_lr=0.0, warmup_steps=2)
    assert constant[:4] == pytest.approx([0.0, 0.25, 0.5, 0.5])
    with pytest.raises(UsageError, match="unknown schedule 'wsd2'"):
        rates(schedule="wsd2")


def test_wsd_table_on_both_loops() -> None:
    training = dataclasses.replace(
        TRAINING,
        schedule="wsd",
        lr=1.0,
        min_lr=0.2,
        warmup_init_lr=0.1,
        warmup_steps=3,
        decay_steps=10,
        wsd_decay_steps=4,
    )
    wanted = [0.1, 0.4, 0.7, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2]
    rate = optim.LearningRate(training)
    assert [rate(i) for i in range(12)] == pytest.approx(wanted, abs=1e-15)
    assert [plain.rate_of(training, i + 1) for i in range(12)] == pytest.approx(wanted, abs=1e-15)
    assert rate(10) == rate(11) == plain.rate_of(training, 11) == 0.2
    for steps in (0, 8):
        with pytest.raises(UsageError, match="does not fit the schedule wsd") as caught:
            optim.LearningRate(dataclasses.replace(training, wsd_decay_steps=steps))
        assert caught.value.where == "training.wsd_decay_steps"


def test_weight_decay_spares_what_is_published_with_one_dimension() -> None:
    shards = [
        shard("model.norm.weight", torch.ones(4)),
        shard("model.embed_tokens.weight", torch.ones(4, 4)),
        shard("model.layers.0.mlp.experts.down_proj", torch.ones(2, 4, 4)),
    ]
    experts = tuple((f"experts.{e}.down_proj.weight",) for e in range(2))
    names = Names({"model.layers.0.mlp.experts.down_proj": experts})
    optimizer = optim.build_optimizer(shards, names, TRAINING, NO_FAULT, fused=False)
    decay = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    assert [decay[id(s.local)] for s in shards] == [0.0, 0.1, 0.1]
    assert optim.effective(optimizer, shards, 1.0) == {
        "beta1": 0.9,
        "beta2": 0.95,
        "eps": 1e-8,
        "weight_decay": 0.1,
        "clip_grad": 1.0,
        "decayed_parameters": 16 + 32,
    }
    with pytest.raises(UsageError, match="unknown optimizer"):
        optim.build_optimizer(
            shards, names, dataclasses.replace(TRAINING, optimizer="lion"), NO_FAULT, fused=False
        )


def test_norm_counts_shared_parts_once_and_clips_to_the_limit() -> None:
    shards = [shard("a", torch.zeros(2)), shard("b", torch.zeros(2), copies=4)]
    shards[0].local.grad = torch.tensor([3.0, 0.0])
    shards[1].local.grad = torch.tensor([0.0, 8.0])
    square = optim.local_square_sum(shards, torch.float64)
    # Four ranks that hold b and one that holds a: 9 + 64.
    assert float(square) == 9 + 64 / 4
    optim.clip(shards, norm=10.0, limit=20.0)
    assert shards[0].local.grad.tolist() == [3.0, 0.0]
    optim.clip(shards, norm=10.0, limit=0.0)
    assert shards[0].local.grad.tolist() == [3.0, 0.0]
    optim.clip(shards, norm=10.0, limit=5.0)
    assert shards[1].local.grad.tolist() == pytest.approx([0.0, 4.0], rel=1e-6)


def routed(seed: int, layers: int = 3, tokens: int = 6, experts: int = 5) -> list[Routed]:
    torch.manual_seed(seed)
    logits = torch.randn(layers, tokens, experts)
    return [Routed(one.requires_grad_(), one.topk(2).indices) for one in logits.unbind()]


@pytest.mark.parametrize("formula", ["megatron", "pooled"])
def test_auxiliary_loss_of_two_ranks_is_that_of_all_tokens(formula: str) -> None:
    ranks = [routed(1), routed(2)]
    k, tokens = 2, 12
    counts = sum(loss.expert_counts(part, torch.float64) for part in ranks)
    assert isinstance(counts, torch.Tensor)
    weights = loss.aux_weights(counts, k, tokens, formula)
    total = torch.stack([loss.aux_summand(part, weights) for part in ranks]).sum()
    logits = [torch.cat([a.logits, b.logits]) for a, b in zip(*ranks, strict=True)]
    probabilities = torch.stack(logits).softmax(-1)
    n = torch.zeros(3, 5)
    for layer in range(3):
        for part in ranks:
            for expert in part[layer].ids.flatten().tolist():
                n[layer, expert] += 1
    if formula == "megatron":
        wanted = sum(
            5 / (k * tokens**2) * (n[i] * probabilities[i].sum(0)).sum().item() for i in range(3)
        )
    else:
        share, mean = n.sum(0) / (3 * tokens), probabilities.mean((0, 1))
        wanted = 5 * (share * mean).sum().item()
    assert total.item() == pytest.approx(wanted, rel=1e-6)
    with pytest.raises(UsageError, match="unknown auxiliary loss"):
        loss.aux_weights(counts, k, tokens, "z-loss")


def test_cross_entropy_counts_masked_labels_not_at_all() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 3, 7), torch.randint(0, 7, (2, 3))
    mask = torch.tensor([[1, 0, 1], [0, 0, 0]], dtype=torch.uint8)
    wanted = -(
        logits[0, 0].log_softmax(-1)[labels[0, 0]] + logits[0, 2].log_softmax(-1)[labels[0, 2]]
    )
    assert float(loss.cross_entropy_sum(logits, labels, mask)) == pytest.approx(wanted)
