"""The master-weight AdamW against torch's own."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from runner.fast.masters import MasterAdamW  # noqa: E402

pytestmark = pytest.mark.torch


def test_ten_steps_equal_torch_and_the_copy_is_the_rounded_master() -> None:
    torch.manual_seed(0)
    start = torch.randn(7, 5)
    mine, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    copy = start.to(torch.bfloat16)
    options = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
    optimizer = MasterAdamW([{"params": [mine]}], {id(mine): copy}, **options)
    wanted = torch.optim.AdamW([theirs], **options)
    for step in range(10):
        gradient = torch.randn(7, 5)
        optimizer.gradient_factor = 0.5 if step % 2 else 1.0
        mine.grad, theirs.grad = gradient, gradient * optimizer.gradient_factor
        for group in (*optimizer.param_groups, *wanted.param_groups):
            group["lr"] = 1e-2 / (step + 1)
        optimizer.step()
        wanted.step()
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)
    assert torch.equal(copy, mine.detach().to(torch.bfloat16))
    for key in ("exp_avg", "exp_avg_sq"):
        values = optimizer.state[mine][key], wanted.state[theirs][key]
        torch.testing.assert_close(*values, rtol=1e-6, atol=1e-9)
    assert float(optimizer.state[mine]["step"]) == 10.0


def test_a_parameter_without_gradient_is_left_alone() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = MasterAdamW([{"params": [parameter]}], {}, lr=1.0)
    optimizer.step()
    assert torch.equal(parameter.detach(), torch.ones(3))
    assert not optimizer.state
