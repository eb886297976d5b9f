"""The update of `runner.fast.masters.plain_update` and the copy, as one Triton kernel."""

# mypy: ignore-errors
# Triton has no types, and is absent where there is no device for it.

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _adamw(
    master, grad, first, second, copy, n, factor, keep, beta1, beta2, rate, root, eps,
    HAS_COPY: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    inside = at < n
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32) * factor
    p = tl.load(master + at, mask=inside, other=0.0) * keep
    m = tl.load(first + at, mask=inside, other=0.0)
    v = tl.load(second + at, mask=inside, other=0.0)
    m = m + (g - m) * (1.0 - beta1)
    v = v * beta2 + g * g * (1.0 - beta2)
    p = p - rate * m / (tl.sqrt(v) / root + eps)
    tl.store(master + at, p, mask=inside)
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)
    if HAS_COPY:
        tl.store(copy + at, p.to(copy.dtype.element_ty), mask=inside)


def launch(
    master: Any, grad: Any, first: Any, second: Any, copy: Any | None, **numbers: float
) -> None:
    """Update contiguous tensors in place; copy (contiguous too, or None) gets the new values."""
    n = master.numel()
    if not n:
        return
    target = master if copy is None else copy
    grid = (triton.cdiv(n, BLOCK),)
    _adamw[grid](
        master, grad, first, second, target, n, *(numbers[k] for k in _ORDER),
        HAS_COPY=copy is not None, SIZE=BLOCK,
    )  # fmt: skip


_ORDER = ("factor", "keep", "beta1", "beta2", "rate", "root", "eps")
