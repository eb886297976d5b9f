"""The stock class in float64, against the written formulas and against itself in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from reference_runs.oracle import Oracle, read_weights
from runner.comparison.stock import stock_oracle
from runner.compat import stock_model
from tests.runner import family_configs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch


def written(model_type: str, folder: Path) -> torch.Tensor:
    """Weights in the folder; returns tokens."""
    model = family_configs.stock(model_type)
    model.save_pretrained(str(folder))
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, family_configs.VOCABULARY, (2, 64), generator=generator)


def test_it_is_as_exact_as_the_written_formulas(tmp_path: Path) -> None:
    tokens = written("qwen3_moe", tmp_path)
    exact = Oracle(family_configs.tiny("qwen3_moe"), read_weights(tmp_path)).forward(tokens)
    found = stock_oracle(str(tmp_path))(tokens)
    assert found.logits.dtype == torch.float64
    # The class rounds cosine and sine to float32, the formulas only the angle before them.
    exact_error = float((found.logits - exact.logits).abs().max())
    single = stock_model(str(tmp_path), "eager", torch.float32).eval()
    with torch.no_grad():
        single_error = float((single(input_ids=tokens).logits - exact.logits).abs().max())
    assert exact_error < 0.2 * single_error
    for layer, sets in exact.topk.items():
        assert torch.equal(found.topk[layer], sets)
        assert torch.allclose(found.topk_gap[layer].double(), exact.topk_gap[layer], atol=1e-7)


@pytest.mark.parametrize("model_type", family_configs.sampled("deepseek_v3", "gpt_oss"))
def test_float32_is_near_it_and_not_equal(model_type: str, tmp_path: Path) -> None:
    tokens = written(model_type, tmp_path)
    found = stock_oracle(str(tmp_path))(tokens).logits
    with torch.no_grad():
        model = stock_model(str(tmp_path), "sdpa", torch.float32).eval()
        single = model(input_ids=tokens).logits
    assert found.dtype == torch.float64
    error = (single.double() - found).abs()
    assert 0 < float(error.max()) < 2e-5 * max(1.0, float(found.abs().max()))
    # Looked up again, the types are what they were.
    assert torch.float32 == single.dtype
    assert torch.zeros(1).float().dtype == single.dtype
