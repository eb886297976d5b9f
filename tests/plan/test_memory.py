"""Memory of both backends against sums made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from certify.plan import build, memory_fsdp2, memory_mcore, pipeline, sharding
from certify.plan.facts import of_config
from certify.plan.layout import Fsdp2Layout, McoreLayout, Recompute
from certify.plan.memory import MIB

from tests.plan.test_flops import model  # isort: skip

QWEN = "qwen3-235b-a22b-4k-fsdp2"
PUBLISHED_TRACE = Fsdp2Layout(fsdp=256, ep=16, ep_fsdp=16, reduce_dtype="fp32")


def test_parameters_a_rank_of_the_published_trace() -> None:
    assert sharding.local_elements(model(QWEN), PUBLISHED_TRACE) == pytest.approx(
        918.531e6, rel=1e-6
    )


def test_stored_bytes_are_master_and_two_moments() -> None:
    found = memory_fsdp2.memory(model(QWEN), PUBLISHED_TRACE)
    stored = sharding.local_elements(model(QWEN), PUBLISHED_TRACE)
    assert found.parameters == 4 * stored
    assert found.optimizer == 8 * stored
    assert found.total == pytest.approx(sum(found.parts().values()))
    assert found.moments[found.at] == max(found.moments.values()) == pytest.approx(found.peak)


def test_logits_dominate_until_the_loss_is_chunked() -> None:
    whole = memory_fsdp2.memory(model(QWEN), PUBLISHED_TRACE)
    assert whole.logits == 4096 * 151936 * (2 + 3 * 4)
    chunked = memory_fsdp2.memory(model(QWEN), replace(PUBLISHED_TRACE, chunk_loss_size=1024))
    assert chunked.total < whole.total


def test_a_pattern_of_the_recipe_keeps_the_router_whole() -> None:
    named = replace(PUBLISHED_TRACE, ignored=("model.layers.{*}.mlp.gate",))
    router = 94 * 128 * 4096
    sharded = 94 * 1 * 4096  # one row of 128 over 256 ranks: the fullest rank has a whole one
    difference = sharding.local_elements(model(QWEN), named) - sharding.local_elements(
        model(QWEN), PUBLISHED_TRACE
    )
    assert difference == router - sharded
    unmatched = replace(PUBLISHED_TRACE, ignored=("model.layers.{*}.mlp.router",))
    assert sharding.local_elements(model(QWEN), unmatched) == sharding.local_elements(
        model(QWEN), PUBLISHED_TRACE
    )


@pytest.mark.parametrize(
    ("distributed", "each"), [(False, 18.0), (True, 6 + 12 / 8)], ids=["whole", "distributed"]
)
def test_bytes_a_parameter_of_megatron(distributed: bool, each: float) -> None:
    layout = McoreLayout(world_size=8, distributed_optimizer=distributed)
    llama = model("llama2-7b-4k-mcore")
    found = memory_mcore.memory(llama, layout)
    states = found.parameters + found.gradients + found.optimizer
    assert states == pytest.approx(each * llama.parameters)


def test_activations_of_a_dense_layer_term_by_term() -> None:
    # Input and result of two norms, q k v and result of attention with log-sum-exps, gate, up and
    # product of the MLP: bf16, one sample of 4,096 tokens, Llama-2-7B.
    h, f, heads, tokens = 4096, 11008, 32, 4096
    expected = tokens * (2 * (4 * h + 4 * h + 3 * f) + 4 * heads)
    layer = model("llama2-7b-4k-mcore").layers[0]
    assert memory_mcore.layer_kept(layer, h, McoreLayout(world_size=8)) == expected
    halves = McoreLayout(world_size=8, tp=2, sequence_parallel=True)
    assert memory_mcore.layer_kept(layer, h, halves) == expected / 2
    contexts = McoreLayout(world_size=8, cp=4)
    assert memory_mcore.layer_kept(layer, h, contexts) == expected / 4


def test_recomputation_keeps_the_inputs() -> None:
    llama = model("llama2-7b-4k-mcore")
    full = McoreLayout(world_size=8, recompute=Recompute("full", "uniform", 1))
    stage = pipeline.stages_of(llama, full)[0]
    found = memory_mcore.stage_memory(stage, llama, full)
    inputs = 32 * 4096 * 4096 * 2
    assert found.activations == inputs + memory_mcore.layer_kept(llama.layers[0], 4096, full)
    block = McoreLayout(world_size=8, recompute=Recompute("full", "block", 8))
    kept = memory_mcore.layer_kept(llama.layers[0], 4096, block)
    found = memory_mcore.stage_memory(pipeline.stages_of(llama, block)[0], llama, block)
    assert found.activations == inputs / 4 + 24 * kept + kept


def test_stages_hold_every_weight_once() -> None:
    qwen = model("qwen3-235b-a22b-4k-mcore")
    layout = McoreLayout(256, pp=4, virtual=3, ep=32, noop_layers=(94, 95), grad_accumulation=16)
    stages = pipeline.stages_of(qwen, layout)
    assert [sum(map(len, stage.chunks)) for stage in stages] == [24, 24, 24, 22]
    held = sum(
        w.numel
        for stage in stages
        for w in (*(w for c in stage.chunks for la in c for w in la.weights), *stage.outer)
    )
    assert held == qwen.parameters


@pytest.mark.parametrize(
    ("pp", "virtual", "micro_batches", "rank", "expected"),
    [
        (4, 1, 16, 0, (4,)),
        (4, 1, 16, 3, (1,)),
        (4, 1, 2, 0, (2,)),
        # 2 x 3 + 4 + 1 = 11 chunks in flight on rank 0, seven of the first chunk.
        (4, 2, 16, 0, (7, 4)),
        # 2 x 0 + 4 + 1 = 5 on the last rank.
        (4, 2, 16, 3, (4, 1)),
    ],
)
def test_micro_batches_in_flight(
    pp: int, virtual: int, micro_batches: int, rank: int, expected: tuple[int, ...]
) -> None:
    layout = McoreLayout(pp * 2, pp=pp, virtual=virtual, grad_accumulation=micro_batches)
    assert pipeline.in_flight(layout, rank) == expected


def test_buffers_follow_the_recipe() -> None:
    llama, layout = model("llama2-7b-4k-mcore"), McoreLayout(world_size=8)
    whole = memory_mcore.memory(llama, layout).communication
    assert memory_mcore.memory(llama, layout, buffsize_mib=100).communication == whole / 2
    assert whole % (400 * MIB) == 0


DENSE_8B = {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
}
MOE_30B = {
    **DENSE_8B,
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_key_value_heads": 4,
}


@pytest.mark.parametrize(
    ("config", "layers", "layout", "measured"),
    [
        (DENSE_8B, 4, Fsdp2Layout(fsdp=2), 21183676416),
        (DENSE_8B, 4, Fsdp2Layout(fsdp=2, micro_batch=2, recompute=False), 36922009600),
        (DENSE_8B, 16, Fsdp2Layout(fsdp=2, seq_length=1024), 43395703808),
        (MOE_30B, 4, Fsdp2Layout(fsdp=2, reduce_dtype="bf16"), 31219489792),
    ],
    ids=["recomputed", "all kept", "deep and short", "experts"],
)
def test_measured_peaks_of_a_gpu(
    config: dict[str, object], layers: int, layout: Fsdp2Layout, measured: int
) -> None:
    """torch.cuda.max_memory_allocated of a third step: plain fully_shard on two H200, NCCL, torch
    2.11, transformers 5.17, stock classes, fp32 shards, bf16 parameters, AdamW (2026-11-30)."""
    model_of = build.architecture(of_config({**config, "num_hidden_layers": layers}))
    assert memory_fsdp2.memory(model_of, layout).peak == pytest.approx(measured, rel=0.08)
