"""Scaling down keeps every feature of every public configuration."""

from __future__ import annotations

from typing import Any

import pytest

from certify.campaign.request import load_scale
from certify.errors import CannotJudgeError
from certify.recipes.load import load_model, model_keys
from certify.recipes.scale import SCALABLE, features, scale_down, scale_model
from certify.recipes.scale.families import EXPERTS, HEADS, LAYERS, TOP_K, value

MODELS = {key: dict(load_model(key).config) for key in model_keys()}
SCALED_DOWN = {k: c for k, c in MODELS.items() if c.get("model_type") in SCALABLE}
TINY = load_scale("tiny")
SEQ_LENGTH = TINY["data"]["seq_length"]


def scaled_of(config: dict[str, Any]) -> dict[str, Any]:
    return scale_model(config, TINY["model"])[0]


@pytest.mark.parametrize("key", SCALED_DOWN)
def test_every_feature_of_a_public_configuration_survives(key: str) -> None:
    public = SCALED_DOWN[key]
    scaled = scaled_of(public)
    assert features(scaled) == features(public)
    assert scaled["hidden_size"] == TINY["model"]["hidden_size"]
    depth = value(scaled, LAYERS)
    assert min(3, value(public, LAYERS)) <= depth <= 8
    for name, entries in public.items():
        if isinstance(entries, list) and len(entries) == value(public, LAYERS):
            # Every kind of layer is there, in the published order from the first.
            assert scaled[name] == entries[:depth]
            assert set(scaled[name]) == set(entries)
    heads, kv = value(scaled, HEADS), scaled.get("num_key_value_heads")
    if kv:
        assert heads % kv == 0
        assert (kv == heads) == (public["num_key_value_heads"] == value(public, HEADS))
    for acts in ("sliding_window", "index_topk", "chunk_size"):
        assert not scaled.get(acts) or scaled[acts] < SEQ_LENGTH
    if experts := value(scaled, EXPERTS):
        assert value(scaled, TOP_K) < experts


def test_latent_attention_keeps_its_identities() -> None:
    scaled = scaled_of(MODELS["deepseek-v3-671b"])
    assert scaled["head_dim"] == scaled["qk_rope_head_dim"]
    assert scaled["qk_head_dim"] == scaled["qk_nope_head_dim"] + scaled["qk_rope_head_dim"]
    assert scaled["kv_lora_rank"] < scaled["num_attention_heads"] * scaled["v_head_dim"]
    assert scaled["n_group"] == 4
    assert scaled["topk_group"] == 2
    # A group is scored by its two best experts, and the chosen groups hold enough of them.
    per_group = scaled["n_routed_experts"] // scaled["n_group"]
    assert per_group >= 2
    assert per_group * scaled["topk_group"] >= scaled["num_experts_per_tok"]
    assert scaled["first_k_dense_replace"] == 1 < scaled["num_hidden_layers"]
    assert scaled["num_nextn_predict_layers"] == 0


def test_multi_token_prediction_is_left_out_in_words() -> None:
    _, changes = scale_model(MODELS["deepseek-v3-671b"], TINY["model"])
    (found,) = [c for c in changes if c.key == "model.num_nextn_predict_layers"]
    assert (found.published, found.scaled) == (1, 0)
    assert "left out" in found.rule


def test_linear_attention_keeps_its_head_ratio_and_its_period() -> None:
    scaled = scaled_of(MODELS["qwen3-next-80b-a3b"])
    assert scaled["linear_num_value_heads"] == 2 * scaled["linear_num_key_heads"]
    assert scaled["layer_types"] == ["linear_attention"] * 3 + ["full_attention"]
    without = {k: v for k, v in MODELS["qwen3-next-80b-a3b"].items() if k != "layer_types"}
    assert scaled_of({**without, "full_attention_interval": 4})["num_hidden_layers"] == 4


@pytest.mark.parametrize(
    ("changed", "key", "expected"),
    [
        ({"model_type": "gemma2", "query_pre_attn_scalar": 144}, "query_pre_attn_scalar", 18),
        ({"model_type": "minimax_m2", "rotary_dim": 64}, "rotary_dim", 8),
        ({"model_type": "seed_oss", "attention_dropout": 0.1}, "attention_dropout", 0.0),
        ({"model_type": "mistral", "sliding_window": None}, "sliding_window", None),
        ({"model_type": "qwen2", "quantization_config": {"a": 1}}, "quantization_config", None),
        ({"model_type": "glm4_moe", "partial_rotary_factor": 0.125}, "head_dim", 32),
    ],
)
def test_a_rule_does_what_it_says(changed: dict[str, Any], key: str, expected: Any) -> None:
    base = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 11008,
    }
    scaled = scaled_of({**base, **changed})
    assert scaled.get(key) == expected


def test_factors_of_each_frequency_follow_the_head() -> None:
    public = {
        "model_type": "phi3",
        "hidden_size": 3072,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "intermediate_size": 8192,
        "rope_scaling": {
            "type": "longrope",
            "long_factor": [float(i) for i in range(48)],
            "short_factor": [1.0] * 48,
        },
    }
    scaled = scaled_of(public)
    assert scaled["head_dim"] == 16
    assert scaled["rope_scaling"]["long_factor"] == [0, 6, 12, 18, 24, 30, 36, 42]
    assert len(scaled["rope_scaling"]["short_factor"]) == 8


def test_an_unknown_model_type_names_near_ones() -> None:
    with pytest.raises(CannotJudgeError, match="'deepseek_v9'") as refused:
        scaled_of({"model_type": "deepseek_v9", "hidden_size": 64})
    assert "deepseek_v3" in str(refused.value.hint)


def test_experts_that_cannot_be_divided_are_not() -> None:
    recipe = {
        "parallel": {"ep": 8, "fsdp_size": 64},
        "batch": {},
        "training": {"lr": 1e-5, "clip_grad": 1.0},
    }
    undivided = scale_down(recipe, MODELS["longcat-moe-560b"], TINY)
    assert undivided.parallel["ep_size"] == 1
    (why,) = [c.rule for c in undivided.changes if c.key == "parallel.ep_size"]
    assert "zero-computation" in why
    assert scale_down(recipe, MODELS["mixtral-8x7b"], TINY).parallel["ep_size"] == 2
    assert scale_down(recipe, MODELS["llama2-7b"], TINY).parallel["ep_size"] == 1
