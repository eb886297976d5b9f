"""Expected tensors of each model type: against what transformers itself saves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from certify.recipes.load import load_model, model_keys
from certify.weights.files import BadFile
from certify.weights.safetensors import read_header
from certify.weights.shapes import FAMILIES, expected_tensors
from tests.weights.make import QWEN3_MOE

COMMON = {
    "vocab_size": 24, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
    "tie_word_embeddings": False,
}  # fmt: skip
LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 6, "qk_rope_head_dim": 2,
    "qk_nope_head_dim": 4, "v_head_dim": 5, "head_dim": 2, "n_routed_experts": 4,
    "n_shared_experts": 2, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
    "moe_intermediate_size": 7, "first_k_dense_replace": 1,
}  # fmt: skip
GLM = {
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "moe_intermediate_size": 7, "first_k_dense_replace": 1,
}  # fmt: skip
MINICPM3 = {
    "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 6, "qk_rope_head_dim": 2,
    "qk_nope_head_dim": 4, "v_head_dim": 5, "head_dim": 2,
}  # fmt: skip
QWEN2_MOE = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5, "head_dim": 4,
    "shared_expert_intermediate_size": 9,
}  # fmt: skip
CASES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("mistral", {}),
    ("gemma", {"tie_word_embeddings": True}),
    ("qwen2", {"head_dim": 4}),
    ("qwen3", {"tie_word_embeddings": True}),
    ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5}),
    ("qwen3_moe", {"num_experts": 4, "moe_intermediate_size": 5, "mlp_only_layers": [1]}),
    ("qwen3_moe", {"num_experts": 4, "moe_intermediate_size": 5, "decoder_sparse_step": 2}),
    ("mixtral", {"num_local_experts": 3}),
    ("deepseek_v2", {**LATENT, "topk_method": "greedy"}),
    ("deepseek_v2", {**LATENT, "q_lora_rank": None}),
    ("deepseek_v3", LATENT),
    ("glm4_moe", {**GLM, "attention_bias": True, "use_qk_norm": True}),
    ("glm4_moe", GLM),
    ("internlm3", {}),
    ("ernie4_5", {"tie_word_embeddings": True}),
    ("ernie4_5", {"use_bias": True}),
    ("seed_oss", {}),
    ("seed_oss", {"attention_bias": False, "attention_out_bias": True}),
    ("gemma2", {"tie_word_embeddings": True}),
    ("phi3", {"head_dim": 4, "pad_token_id": None}),
    ("glm", {"pad_token_id": None}),
    ("olmo2", {"head_dim": 4, "pad_token_id": None}),
    ("minicpm3", {**MINICPM3, "tie_word_embeddings": True}),
    ("qwen2_moe", QWEN2_MOE),
    ("qwen2_moe", {**QWEN2_MOE, "mlp_only_layers": [0]}),
    ("phimoe", {"num_local_experts": 3, "head_dim": 4}),
    (
        "phimoe",
        {"num_local_experts": 3, "head_dim": 4, "attention_bias": True, "lm_head_bias": True},
    ),
    ("minimax_m2", {"num_local_experts": 3}),
    ("gpt_oss", {"num_local_experts": 3, "pad_token_id": None}),
    ("deepseek_v32", {**LATENT, "index_n_heads": 2, "index_head_dim": 6, "index_topk": 4}),
]


def test_every_type_has_a_case() -> None:
    assert {kind for kind, _ in CASES} == set(FAMILIES)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("kind", "changes"), CASES, ids=lambda one: one if type(one) is str else ""
)
def test_same_tensors_as_transformers_saves(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = {"model_type": kind, **COMMON, **changes}
    made = transformers.AutoConfig.for_model(
        kind, **{key: value for key, value in config.items() if key != "model_type"}
    )
    transformers.AutoModelForCausalLM.from_config(made).save_pretrained(tmp_path)
    saved = {
        name: tensor.shape
        for name, tensor in read_header(tmp_path / "model.safetensors").tensors.items()
    }
    expected = expected_tensors(config)
    assert expected is not None
    assert saved == expected.required


PARAMETERS = {
    # Published totals, within the rounding of the name.
    "qwen3-235b-a22b": 235.1e9,
    "qwen3-30b-a3b": 30.5e9,
    "deepseek-v3-671b": 671.0e9,
    "mixtral-8x7b": 46.7e9,
    "llama3-8b": 8.03e9,
    "qwen2p5-72b": 72.7e9,
    "gemma-7b": 8.54e9,
    "gemma2-9b": 9.24e9,
    "gemma2-27b": 27.2e9,
    "phi3p5-mini-instruct": 3.82e9,
    "phi3p5-moe-instruct": 41.9e9,
    "qwen2-57b-a14b": 57.4e9,
    "glm4-9b": 9.4e9,
    "seed-oss-36b": 36.2e9,
    "minimax-m2p7-moe-229b": 228.7e9,
    "mistral-7b": 7.24e9,
    "yi-34b": 34.4e9,
    "deepseek-v2-lite-16b": 15.7e9,
    "deepseek-v2-236b": 235.7e9,
}


@pytest.mark.parametrize(("key", "total"), PARAMETERS.items())
def test_published_sizes(key: str, total: float) -> None:
    expected = expected_tensors(load_model(key).config)
    assert expected is not None
    found = sum(math.prod(shape) for shape in expected.required.values())
    assert found == pytest.approx(total, rel=0.004)


def test_all_public_configurations_can_be_read() -> None:
    known = 0
    for key in model_keys():
        expected = expected_tensors(load_model(key).config)
        known += expected is not None
    assert known >= 30


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": None}, "hidden_size is None"),
        ({"hidden_size": "8"}, "hidden_size is 8, which is no usable size"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"num_hidden_layers": 2**24}, "more than 200,000 tensors"),
        ({"num_experts": 2**24}, "more than 200,000 tensors"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
    ],
)
def test_hostile_configurations(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadFile, match=said):
        expected_tensors({**QWEN3_MOE, **changes})


@pytest.mark.parametrize("kind", [None, 3, ["llama"], {}, "unheard-of"])
def test_unknown_types(kind: Any) -> None:
    assert expected_tensors({**QWEN3_MOE, "model_type": kind}) is None


def test_odd_lists_are_no_layers() -> None:
    for odd in (3, "0", {"0": 1}):
        assert expected_tensors({**QWEN3_MOE, "mlp_only_layers": odd}) is not None
