"""What the formulas say a layer keeps for its backward pass, and what autograd really saves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certify.plan import build, memory_fsdp2
from certify.plan.facts import of_config

ROOT = Path(__file__).resolve().parents[2]
BASE: dict[str, Any] = {
    "vocab_size": 256,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
LATENT = {
    "q_lora_rank": 96,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "num_key_value_heads": 8,
}
ROUTED = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "qwen3_moe": {"model_type": "qwen3_moe", **EXPERTS, "decoder_sparse_step": 1},
    "deepseek_v3": {"model_type": "deepseek_v3", **LATENT, **ROUTED},
    "phi3": {"model_type": "phi3", "num_key_value_heads": 8},
    "phimoe": {"model_type": "phimoe", "num_local_experts": 8, "num_experts_per_tok": 2},
    "gemma2": {"model_type": "gemma2", "tie_word_embeddings": True, "sliding_window": 64},
    "gpt_oss": {"model_type": "gpt_oss", "num_local_experts": 8, "num_experts_per_tok": 2},
    "seed_oss": {"model_type": "seed_oss"},
    "ernie4_5_moe": {
        "model_type": "ernie4_5_moe",
        "moe_num_experts": 8,
        "moe_k": 2,
        "moe_intermediate_size": 128,
        "moe_num_shared_experts": 1,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": 1,
        "moe_layer_interval": 1,
    },
    "qwen3_next": {
        "model_type": "qwen3_next",
        **EXPERTS,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 128,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
        "linear_conv_kernel_dim": 4,
    },
}
TOKENS = 512


@pytest.fixture(scope="module")
def saved() -> dict[str, list[int]]:
    """family -> bytes that each layer of the stock class saves, bfloat16, fused kernels."""
    configs = {family: {**BASE, **own} for family, own in CONFIGS.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.plan.kept"],
        input=json.dumps({"tokens": TOKENS, "configs": configs}),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    answer: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.torch
@pytest.mark.parametrize("family", CONFIGS)
def test_formula_is_what_autograd_saves(family: str, saved: dict[str, list[int]]) -> None:
    config = {**BASE, **CONFIGS[family]}
    model = build.architecture(of_config(config))
    # On a CPU the mask of a dropout has the compute dtype; the formula counts the accelerators'
    # one byte an element.
    planned = [
        memory_fsdp2.layer_kept(x, model.hidden, TOKENS, 2) + x.dropouts * model.hidden * TOKENS
        for x in model.layers
    ]
    for formula, found in zip(planned, saved[family], strict=True):
        assert formula == pytest.approx(found, rel=0.04)
