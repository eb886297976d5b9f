"""Which kernel answers scaled_dot_product_attention."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

# Best first; sdpa takes the first one that can compute a call.
PREFERENCE = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")


def preferred(device: str) -> tuple[str, ...]:
    """The kernels in the order in which they are tried; empty where torch decides alone.

    On cuda devices of compute capability 9.0 and above cuDNN's kernels come first.
    """
    if device != "cuda":
        return ()
    newest = torch.cuda.get_device_capability()[0] >= 9
    return PREFERENCE if newest else PREFERENCE[1:]


def kernels(order: tuple[str, ...]) -> Any:
    """A context in which sdpa tries the kernels in this order."""
    if not order:
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([getattr(SDPBackend, name) for name in order], set_priority=True)
