"""What megatron-core's modules without Transformer Engine lack for some families, each small and
proven by logits against the stock class (tests/runner/mcore/test_families.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from megatron.core.tensor_parallel.layers import RowParallelLinear
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.utils import make_sharded_tensors_for_checkpoint
from torch import Tensor, nn

if TYPE_CHECKING:
    from megatron.core.transformer import TransformerConfig


class ZeroCentredRMSNorm(nn.Module):  # type: ignore[misc]
    """RMSNorm that multiplies by 1 + weight. torch's has no such form, and weights stored with
    the 1 added would not come back bit for bit."""

    def __init__(
        self, config: TransformerConfig, hidden_size: int, eps: float = 1e-6, **_: Any
    ) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(hidden_size, dtype=config.params_dtype))

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., hidden_size] -> the same shape and type."""
        wide = hidden.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (scaled * (1.0 + self.weight.float())).type_as(hidden)


class _WholeNorm(nn.Module):  # type: ignore[misc]
    """RMSNorm over all heads of a projection together. heads: their number."""

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float, heads: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(hidden_size * heads, eps=eps, dtype=config.params_dtype)
        self.weight = self.norm.weight
        del self.norm.weight
        self.eps, self.width = eps, hidden_size * heads

    def forward(self, heads: Tensor) -> Tensor:
        """[S, B, heads, width] -> the same."""
        flat = heads.flatten(-2)
        return nn.functional.rms_norm(flat, (self.width,), self.weight, self.eps).view_as(heads)


class WholeQueryNorm(_WholeNorm):
    """Of the queries."""

    def __init__(
        self, config: TransformerConfig, hidden_size: int, eps: float = 1e-6, **_: Any
    ) -> None:
        super().__init__(config, hidden_size, eps, config.num_attention_heads)


class WholeKeyNorm(_WholeNorm):
    """Of the keys."""

    def __init__(
        self, config: TransformerConfig, hidden_size: int, eps: float = 1e-6, **_: Any
    ) -> None:
        super().__init__(config, hidden_size, eps, int(config.num_query_groups or 0))


class NormedRowParallelLinear(RowParallelLinear):  # type: ignore[misc]
    """An output projection followed by a norm, as families have it that normalise what attention
    and MLP add to the residual stream. norm: class of the norm."""

    def __init__(self, input_size: int, output_size: int, *, norm: Any, **kwargs: Any) -> None:
        super().__init__(input_size, output_size, **kwargs)
        config = kwargs["config"]
        self.post_norm = norm(config=config, hidden_size=output_size, eps=config.layernorm_epsilon)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """As RowParallelLinear."""
        output, bias = super().forward(hidden)
        return self.post_norm(output), bias

    def sharded_state_dict(
        self,
        prefix: str = "",
        sharded_offsets: tuple[tuple[int, int, int], ...] = (),
        metadata: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The linear layer's, and the norm's, which every tensor-parallel rank holds."""
        found: dict[str, Any] = super().sharded_state_dict(prefix, sharded_offsets, metadata)
        found.pop(prefix + "post_norm.weight", None)
        norm = make_sharded_tensors_for_checkpoint(
            {"post_norm.weight": self.post_norm.weight},
            prefix,
            {},
            sharded_offsets,
            tp_group=self.tp_group,
            dp_cp_group=(metadata or {})["dp_cp_group"],
        )
        return {**found, **norm}


class _Capped(nn.Module):  # type: ignore[misc]
    """Scores bent to stay within +-cap, before mask and softmax."""

    def __init__(self, softmax: nn.Module, cap: float) -> None:
        super().__init__()
        self.softmax, self.cap = softmax, cap

    def forward(self, scores: Tensor, mask: Tensor | None, offset: Tensor | None) -> Tensor:
        capped: Tensor = self.softmax(self.cap * torch.tanh(scores / self.cap), mask, offset)
        return capped


class CappedDotProductAttention(DotProductAttention):  # type: ignore[misc]
    """Megatron's attention with soft-capped scores. cap: the bound."""

    def __init__(self, *args: Any, cap: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        uncapped: Any = self.scale_mask_softmax  # type: ignore[has-type]
        self.scale_mask_softmax = _Capped(uncapped, cap)


class LatentDotProductAttention(DotProductAttention):  # type: ignore[misc]
    """Megatron's attention under its latent attention, which names the widths of keys and values;
    both are read off the tensors, and ``kv_channels`` is that of the values."""

    def __init__(self, *args: Any, k_channels: int = 0, v_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.widths = (k_channels, v_channels)


class GroupChoice:
    """Limits a choice of experts to the best groups; best: experts that make a group's score.

    Megatron counts top-k // groups of them, which is another number in some families. It hands
    its choice to what stands as a router's ``router_replay``.
    """

    def __init__(self, best: int) -> None:
        self.best = best

    def get_replay_topk(
        self, scores: Tensor, topk: int, groups: int, top_groups: int, _: Any
    ) -> tuple[Tensor, Tensor]:
        """(chosen scores, chosen experts), each [tokens, topk]. scores: [tokens, experts]."""
        values, indices = self.limited(scores, groups, top_groups).topk(topk, dim=-1)
        return values, indices

    def scores(self, scores: Tensor, groups: int) -> Tensor:
        """Of each group [tokens, groups]."""
        return scores.unflatten(-1, (groups, -1)).topk(self.best, dim=-1).values.sum(-1)

    def limited(self, scores: Tensor, groups: int, top_groups: int) -> Tensor:
        """scores with -inf outside the best groups."""
        of_group = self.scores(scores, groups)
        outside = torch.ones_like(of_group, dtype=torch.bool)
        outside.scatter_(1, of_group.topk(top_groups, dim=-1).indices, False)
        grouped = scores.unflatten(-1, (groups, -1))
        return grouped.masked_fill(outside[..., None], float("-inf")).flatten(-2)
