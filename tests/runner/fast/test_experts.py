"""The grouped experts against the stock loop, and the two permutations against plain indexing."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers.integrations.moe")

from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from runner.fast import experts  # noqa: E402
from tests.runner.tiny import HF_CONFIG  # noqa: E402

pytestmark = pytest.mark.torch


def module_of(dtype: Any) -> Any:
    torch.manual_seed(1)
    config = AutoConfig.for_model(**HF_CONFIG)
    config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    return model.model.layers[0].mlp.experts.to(dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("only", [None, 2])
def test_the_stock_result_and_gradients(dtype: str, only: int | None) -> None:
    """only: every token goes to this expert twice, so that the others get no row."""
    module = module_of(getattr(torch, dtype))
    ids = torch.stack([torch.randperm(4)[:2] for _ in range(24)])
    if only is not None:
        ids = torch.full_like(ids, only)
    found = []
    for forward in (experts.forward_of(module), module.forward):
        torch.manual_seed(2)
        hidden = torch.randn(24, 32).to(module.down_proj.dtype).requires_grad_()
        weights = torch.rand(24, 2).to(hidden.dtype).requires_grad_()
        module.zero_grad()
        out = forward(hidden, ids, weights)
        (out.float() ** 2).sum().backward()
        grads = [p.grad.clone() for p in (hidden, weights, *module.parameters())]
        found.append([out.detach(), *grads])
    for mine, wanted in zip(*found, strict=True):
        error = (mine.double() - wanted.double()).norm() / wanted.double().norm()
        assert error <= (1e-6 if dtype == "float32" else 2e-2)


def test_experts_of_another_form_keep_the_stock_forward() -> None:
    module = module_of(torch.float32)
    assert experts.is_plain_gated(module)
    module.register_parameter("gate_up_proj_bias", torch.nn.Parameter(torch.zeros(4, 32)))
    assert not experts.is_plain_gated(module)
