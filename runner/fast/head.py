"""Cross-entropy over chunks of positions, with its gradient formed in the same pass.

The logits of one chunk exist at a time, in the type of the weights; no float32 logits of a whole
batch are made. Of each chunk remain the gradient of its hidden states and its summand of the
gradient of the head, which is added up in float32.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def chunk_gradient(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(sum of the masked cross-entropy in nats, float32; its gradient in the type of the logits).

    logits [n, vocabulary]; labels [n]; mask [n], 1 where the label is in the loss.
    """
    values = logits.float()
    normaliser = values.logsumexp(dim=-1, keepdim=True)
    weight = mask.float()
    picked = values.gather(1, labels[:, None])
    total = ((normaliser - picked).squeeze(1) * weight).sum()
    columns = torch.arange(logits.shape[1], device=logits.device)
    target = (columns[None, :] == labels[:, None]).to(values.dtype)
    gradient = ((values - normaliser).exp() - target) * weight[:, None]
    return total, gradient.to(logits.dtype)


def _add_product(total: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """total (float32) + a @ b, without rounding the product first where the device can."""
    if a.dtype == total.dtype:
        return total.addmm_(a, b)
    if a.is_cuda and hasattr(torch.ops.aten.addmm, "dtype"):
        return torch.addmm(total, a, b, out_dtype=total.dtype)
    return total.addmm_(a.to(total.dtype), b.to(total.dtype))


class _LinearCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        labels: torch.Tensor,
        mask: torch.Tensor,
        size: int,
        kernel: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        needed = ctx.needs_input_grad
        d_hidden = torch.empty_like(hidden) if needed[0] else None
        d_weight = torch.zeros_like(weight, dtype=torch.float32) if needed[1] else None
        d_bias = torch.zeros_like(bias, dtype=torch.float32) if needed[2] else None
        for start in range(0, hidden.shape[0], size):
            part = slice(start, start + size)
            logits = torch.nn.functional.linear(hidden[part], weight, bias)
            summand, gradient = kernel(logits, labels[part], mask[part])
            del logits
            total += summand
            if d_hidden is not None:
                torch.mm(gradient, weight, out=d_hidden[part])
            if d_weight is not None:
                d_weight = _add_product(d_weight, gradient.t(), hidden[part])
            if d_bias is not None:
                d_bias += gradient.float().sum(dim=0)
        ctx.gradients = (d_hidden, d_weight, d_bias)
        ctx.dtypes = (hidden.dtype, weight.dtype, None if bias is None else bias.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, above: torch.Tensor) -> tuple[Any, ...]:
        # Scaled in place: this graph is walked once.
        found, ctx.gradients = ctx.gradients, None
        if found is None:
            raise RuntimeError("the gradient of a chunked loss was taken already")
        scaled = [
            None if g is None else g.mul_(above).to(dtype)
            for g, dtype in zip(found, ctx.dtypes, strict=True)
        ]
        return (*scaled, None, None, None, None)


def linear_cross_entropy_sum(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    mask: torch.Tensor,
    size: int = 8192,
    kernel: Callable[..., tuple[torch.Tensor, torch.Tensor]] = chunk_gradient,
) -> torch.Tensor:
    """Sum of the cross-entropy of ``hidden @ weight.T + bias`` over labels whose mask is 1.

    hidden [samples, positions, width]; weight [vocabulary, width]; labels and mask
    [samples, positions]; size: positions of one chunk. float32, in nats, with gradient.
    """
    if not torch.is_grad_enabled():
        hidden, weight = hidden.detach(), weight.detach()
        bias = None if bias is None else bias.detach()
    flat = hidden.flatten(0, -2)
    apply: Any = _LinearCrossEntropy.apply
    total: torch.Tensor = apply(flat, weight, bias, labels.flatten(), mask.flatten(), size, kernel)
    return total


class ChunkedHead:
    """Makes the head of a stock model return the loss, when it is asked for one.

    The stock forward runs as it is, so the hooks of every wrapper act where they always do; only
    the head, while `loss` runs, gives a sum in place of logits. A family that goes on computing
    with its logits (soft caps, scales) is found by that and refused.
    Raises UsageError for a model without a linear head.
    """

    def __init__(self, model: Any, size: int, compiled: bool = False) -> None:
        head = model.get_output_embeddings()
        if not isinstance(head, torch.nn.Linear):
            raise UsageError(
                f"{type(model).__name__} has no linear head",
                where="speed.chunked_loss",
                expected="a causal language model with a linear output layer",
                hint="set speed.chunked_loss to off",
            )
        self.model = model
        self._size = size
        self._target: tuple[torch.Tensor, torch.Tensor] | None = None
        self._kernel: Callable[..., Any] = chunk_gradient
        if compiled:
            self._kernel = torch.compile(chunk_gradient, fullgraph=True, dynamic=False)
        stock = head.forward

        def forward(hidden: torch.Tensor) -> Any:
            if self._target is None:
                return stock(hidden)
            labels, mask = self._target
            return linear_cross_entropy_sum(
                hidden, head.weight, head.bias, labels, mask, self._size, self._kernel
            )

        head.forward = forward

    @contextmanager
    def _expecting(self, labels: torch.Tensor, mask: torch.Tensor) -> Iterator[None]:
        self._target = (labels, mask)
        try:
            yield
        finally:
            self._target = None

    def loss(self, inputs: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`runner.loss.cross_entropy_sum` of the model on inputs; all [samples, positions].

        Raises UsageError for a family that changes its logits after the head.
        """
        with self._expecting(labels, mask):
            result: torch.Tensor = self.model(input_ids=inputs, use_cache=False).logits
        operation = type(result.grad_fn).__name__
        if result.dim() or (result.requires_grad and "LinearCrossEntropy" not in operation):
            raise UsageError(
                f"{type(self.model).__name__} changes its logits after the head",
                where="speed.chunked_loss",
                expected="a family whose logits are the output of the head",
                hint="set speed.chunked_loss to off",
            )
        return result
