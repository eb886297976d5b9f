"""Both methods agree: a step traced on fake tensors, and the formulas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from certify.plan import build
from certify.plan.facts import of_config
from certify.plan.layout import Cluster, Fsdp2Layout
from certify.plan.trace import compare, depths, extrapolate, run_trace, spec_of

MOE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DENSE: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EP = Fsdp2Layout(fsdp=8, ep=2, ep_fsdp=4, micro_batch=2, seq_length=512)
CASES = {
    "chunked loss, bf16 sums": (MOE, replace(EP, chunk_loss_size=128, reduce_dtype="bf16")),
    "nothing recomputed": (MOE, replace(EP, recompute=False)),
    "dense and tied": (DENSE, Fsdp2Layout(fsdp=8, seq_length=512)),
}


def test_extrapolation_is_a_line() -> None:
    assert extrapolate(5.0, 9.0, (2, 4), 94) == 5 + 2 * 92


def test_depths_skip_leading_dense_layers_and_keep_whole_periods() -> None:
    assert depths(build.architecture(of_config(MOE)), MOE) == (2, 4)
    leading = {**MOE, "mlp_only_layers": [0]}
    assert depths(build.architecture(of_config(leading)), leading) == (3, 5)
    alternating = {**DENSE, "layer_types": ["a", "a", "a", "b", "a", "a", "a", "b"]}
    assert depths(build.architecture(of_config(DENSE)), alternating) == (4, 8)


@pytest.mark.torch
@pytest.mark.parametrize("case", CASES)
def test_formula_and_trace_agree(case: str, tmp_path: Path) -> None:
    config, layout = CASES[case]
    spec = spec_of(config, layout, (2, 4), str(tmp_path / "trace.json"))
    result = run_trace(spec, tmp_path)
    model = build.architecture(of_config(config))
    found = compare(model, layout, Cluster(1, 8), result)
    assert {c.name for c in found} >= {"parameters", "optimizer", "peak", "all_gather"}
    assert [(c.name, c.difference) for c in found if not c.agrees] == []


@pytest.mark.torch
def test_two_shallow_traces_foretell_a_deeper_one(tmp_path: Path) -> None:
    spec = replace(spec_of(MOE, EP, (2, 4), str(tmp_path / "trace.json")), layers=(2, 4, 6))
    result = run_trace(spec, tmp_path)
    found = compare(build.architecture(of_config(MOE)), EP, Cluster(1, 8), result)
    assert [(c.name, c.difference) for c in found if not c.agrees] == []
    foretold = {c.name: c.trace for c in found}
    deep = result["traces"][2]
    assert foretold["parameters"] == deep["parameters"]
    assert foretold["peak"] == pytest.approx(max(deep["peaks"].values()), rel=1e-3)
