"""The declarative mapping: names, layouts and the way back, without megatron."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from certify.errors import UsageError
from runner.backends.mcore.mapping import WeightMap
from tests.runner.mcore import tiny

pytestmark = pytest.mark.torch

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": tiny.hf_config("llama"),
    "qwen2-tied": tiny.hf_config("qwen2", tie_word_embeddings=True),
    "qwen3": tiny.hf_config("qwen3", num_key_value_heads=1),
    "qwen3_moe": tiny.hf_config("qwen3_moe", num_key_value_heads=8),
    "qwen3_moe-mixed": tiny.hf_config("qwen3_moe", decoder_sparse_step=2),
}


def drawn(config: dict[str, Any], tmp_path: Any) -> dict[str, torch.Tensor]:
    """Every tensor that stock transformers publishes for a configuration."""
    from safetensors.torch import load_file

    tiny.stock_model(config).save_pretrained(str(tmp_path))
    return load_file(tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", CONFIGS)
def test_round_trip_is_bitwise(name: str, tmp_path: Any) -> None:
    names = WeightMap(CONFIGS[name])
    tensors = drawn(CONFIGS[name], tmp_path)
    inside = dict(names.to_mcore(tensors))
    assert sorted(inside) == sorted(names.mcore_names)
    assert sum(t.numel() for t in inside.values()) == sum(t.numel() for t in tensors.values())
    back = names.to_hf(inside)
    assert sorted(back) == sorted(tensors)
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())


def test_heads_of_a_group_stand_together() -> None:
    """Two groups of two query heads, head width 1: rows q0 q1 k0 v0, q2 q3 k1 v1."""
    config = tiny.hf_config("llama", num_attention_heads=4, num_key_value_heads=2, hidden_size=4)
    config |= {"head_dim": 1, "num_hidden_layers": 1}
    names = WeightMap(config)
    rows = {"q_proj": [0.0, 1, 2, 3], "k_proj": [10.0, 11], "v_proj": [20.0, 21]}
    tensors = {name: torch.zeros(2, 4) for name in names.hf_names}
    for part, values in rows.items():
        tensors[f"model.layers.0.self_attn.{part}.weight"] = torch.tensor(values)[:, None].expand(
            -1, 4
        )
    inside = dict(names.to_mcore(tensors))
    qkv = inside["decoder.layers.0.self_attention.linear_qkv.weight"]
    assert qkv[:, 0].tolist() == [0, 1, 10, 20, 2, 3, 11, 21]


def test_missing_and_unknown_tensors_are_named(tmp_path: Any) -> None:
    names = WeightMap(CONFIGS["llama"])
    tensors = drawn(CONFIGS["llama"], tmp_path)
    norm = tensors.pop("model.norm.weight")
    with pytest.raises(UsageError, match=r"lacks 1 tensors, the first 'model\.norm\.weight'"):
        dict(names.to_mcore(tensors))
    tensors |= {"model.norm.weight": norm, "model.extra.weight": norm}
    with pytest.raises(UsageError, match=r"holds 1 tensors, the first 'model\.extra\.weight'"):
        dict(names.to_mcore(tensors))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "bloom"}, "bloom"),
        ({"model_type": "phimoe"}, "sparse-mixer"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 8.0}}, "rope_type"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
    ],
)
def test_other_mathematics_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        WeightMap({**tiny.hf_config("llama"), **changes})
