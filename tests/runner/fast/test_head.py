"""The chunked cross-entropy against the plain one, value and gradient."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from runner import loss  # noqa: E402
from runner.fast.head import linear_cross_entropy_sum  # noqa: E402

pytestmark = pytest.mark.torch


def both(dtype: Any, size: int, masked: float, bias: bool) -> list[list[Any]]:
    """[[loss, gradients of hidden, weight and bias]] of the chunked and of the plain form."""
    found = []
    for chunked in (True, False):
        torch.manual_seed(3)
        hidden = torch.randn(2, 13, 8).to(dtype).requires_grad_()
        weight = torch.randn(31, 8).to(dtype).requires_grad_()
        shift = torch.randn(31).to(dtype).requires_grad_() if bias else None
        labels = torch.randint(0, 31, (2, 13))
        mask = (torch.rand(2, 13) < masked).to(torch.uint8)
        if chunked:
            total = linear_cross_entropy_sum(hidden, weight, shift, labels, mask, size)
        else:
            logits = torch.nn.functional.linear(hidden, weight, shift)
            total = loss.cross_entropy_sum(logits, labels, mask)
        (total * 0.37).backward()
        leaves = [hidden, weight] + ([shift] if bias else [])
        found.append([total.detach(), *(leaf.grad for leaf in leaves)])
    return found


@pytest.mark.parametrize("size", [1, 5, 26, 100])
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradients_in_float32(size: int, bias: bool) -> None:
    chunked, plain = both(torch.float32, size, 0.6, bias)
    for mine, wanted in zip(chunked, plain, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-6, atol=1e-6)
        assert wanted.abs().sum() > 0


def test_no_trained_token_gives_zero_and_zero_gradients() -> None:
    chunked, _ = both(torch.float32, 7, 0.0, True)
    assert all(float(value.abs().sum()) == 0.0 for value in chunked)


def test_bfloat16_rounds_no_more_than_the_plain_form() -> None:
    exact = both(torch.float64, 26, 0.6, False)[1]
    chunked, plain = both(torch.bfloat16, 5, 0.6, False)
    assert [value.dtype for value in chunked[1:]] == [torch.bfloat16] * 2
    # The inputs differ by their rounding, so only the size of errors is compared.
    for mine, other, wanted in zip(chunked, plain, exact, strict=True):
        errors = [float((v.double() - wanted).norm() / wanted.norm()) for v in (mine, other)]
        assert errors[0] <= 1.1 * errors[1] + 1e-3


def test_without_gradients_nothing_is_formed() -> None:
    hidden, weight = torch.randn(1, 4, 8), torch.randn(9, 8, requires_grad=True)
    labels, mask = torch.zeros(1, 4, dtype=torch.long), torch.ones(1, 4)
    with torch.no_grad():
        total = linear_cross_entropy_sum(hidden, weight, None, labels, mask)
    assert not total.requires_grad
    assert float(total) > 0
