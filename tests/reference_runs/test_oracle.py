"""The float64 oracle against stock transformers run in float64, and against arithmetic."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

from certify.errors import CannotJudgeError
from reference_runs import oracle
from reference_runs.oracle import Oracle, read_weights
from tests.runner.mcore import tiny

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": tiny.hf_config("llama"),
    "qwen2-tied": tiny.hf_config("qwen2", tie_word_embeddings=True),
    "qwen3": tiny.hf_config("qwen3", num_key_value_heads=2),
    "qwen3_moe": tiny.hf_config("qwen3_moe"),
    "qwen3_moe-mixed": tiny.hf_config(
        "qwen3_moe", mlp_only_layers=[1], norm_topk_prob=False, num_experts_per_tok=8
    ),
}
TOKENS = torch.arange(3 * tiny.SEQ).view(3, tiny.SEQ) * 7 % tiny.VOCAB


class _Float64(types.ModuleType):
    """torch with the name float32 standing for float64."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, {"float32": "float64", "float": "float64"}.get(name, name))


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Stock modules compute norms, softmax and rotary angles in float32 whatever their dtype;
    here every such cast goes to float64, so that only the formulas are left to differ."""
    import transformers.modeling_rope_utils as rope
    from transformers.models.llama import modeling_llama
    from transformers.models.qwen2 import modeling_qwen2
    from transformers.models.qwen3 import modeling_qwen3
    from transformers.models.qwen3_moe import modeling_qwen3_moe

    for module in (rope, modeling_llama, modeling_qwen2, modeling_qwen3, modeling_qwen3_moe):
        monkeypatch.setattr(module, "torch", _Float64("torch"))
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    return monkeypatch


@pytest.mark.parametrize("name", CONFIGS)
def test_equals_transformers_in_float64(name: str, tmp_path: Path, in_float64: Any) -> None:
    config = CONFIGS[name]
    model = tiny.stock_model(config)
    model.save_pretrained(str(tmp_path))
    model.config._experts_implementation = "eager"  # the kernel for grouped products has no float64
    model.set_attn_implementation("eager")
    model.double().eval()
    with torch.no_grad():
        expected = model(TOKENS).logits
    assert expected.dtype == torch.float64
    found = Oracle(config, read_weights(tmp_path), angle_dtype=torch.float64).forward(TOKENS)
    assert float((found.logits - expected).abs().max()) <= 1e-10 * float(expected.abs().max())


def test_top_k_sets_and_gaps(tmp_path: Path) -> None:
    """Of a router whose rows are unit vectors: its probabilities are the softmax of the input."""
    config = tiny.hf_config("qwen3_moe", num_hidden_layers=1, num_experts_per_tok=2)
    tiny.stock_model(config).save_pretrained(str(tmp_path))
    model = Oracle(config, {**load_file(tmp_path / "model.safetensors")})
    model.weights["model.layers.0.mlp.gate.weight"] = torch.eye(8, 64, dtype=torch.float64)
    x = torch.zeros(2, 64, dtype=torch.float64)
    x[0, :3] = torch.tensor([4.0, 2.0, 3.0])
    x[1, 5:8] = torch.tensor([1.0, 5.0, 1.5])
    _, (ids, gap, _) = model._experts(x, "model.layers.0.mlp.")
    assert ids.tolist() == [[0, 2], [6, 7]]
    assert ids.dtype == torch.int16
    p = x[:, :8].softmax(-1)
    expected = [float(p[0, 2] - p[0, 1]), float(p[1, 7] - p[1, 5])]
    assert gap.tolist() == pytest.approx(expected, rel=1e-12)


def test_angles_are_those_of_published_models_unless_asked() -> None:
    """float32 angles are what stock buffers hold; the exact formula differs far into a sequence."""
    single = oracle.rotary_angles(4096, 64, 1e6, torch.float32).double()
    exact = oracle.rotary_angles(4096, 64, 1e6, torch.float64)
    positions = torch.arange(4096, dtype=torch.float32)
    assert torch.equal(single[:, 0], positions.double())
    assert 1e-6 < float((single - exact).abs().max()) < 1e-3
    assert float(exact[5, 3]) == pytest.approx(5 * 1e6 ** (-6 / 64), rel=1e-14)


def test_sharded_checkpoints_are_read(tmp_path: Path) -> None:
    model = tiny.stock_model(CONFIGS["qwen3"])
    model.save_pretrained(str(tmp_path / "one"))
    model.save_pretrained(str(tmp_path / "many"), max_shard_size="60KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    one, many = read_weights(tmp_path / "one"), read_weights(tmp_path / "many")
    assert set(one) == set(many)
    assert all(torch.equal(tensor, many[name]) for name, tensor in one.items())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "deepseek_v3"}, "deepseek_v3"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "yarn"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"use_sliding_window": True}, "use_sliding_window"),
    ],
)
def test_other_mathematics_cannot_be_judged(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(CannotJudgeError, match=named):
        Oracle({**CONFIGS["llama"], **changes}, {})
    without = {key: value for key, value in CONFIGS["llama"].items() if key != "rope_theta"}
    with pytest.raises(CannotJudgeError, match="rope_theta"):
        Oracle(without, {})
