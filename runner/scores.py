"""How a family's routers turn logits into a choice of experts.

The stock routers compute and hide it; the evidence (how near a choice was to another one) and
the auxiliary loss need it. Checked in the tests against the experts that the routers choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

# model_type -> the score of a logit; all others use a softmax over all experts.
SCORES = {
    "deepseek_v3": "sigmoid",
    "deepseek_v32": "sigmoid",
    "deepseek_v4": "sqrtsoftplus",
    "glm4_moe": "sigmoid",
    "glm_moe_dsa": "sigmoid",
    "minimax_m2": "sigmoid",
    "step3p5": "sigmoid",
}
# model_type -> how many of the best experts of a group make its score.
_GROUP_BEST = {"deepseek_v2": 1}


def score(logits: torch.Tensor, function: str) -> torch.Tensor:
    """The scores of router logits [n, experts], float32 and above zero."""
    logits = logits.float()
    if function == "sigmoid":
        return logits.sigmoid()
    if function == "sqrtsoftplus":
        return torch.nn.functional.softplus(logits).sqrt()
    return logits.softmax(dim=-1)


@dataclass(frozen=True)
class Scoring:
    """The choice of one family. groups: 1 where the choice is not limited to groups."""

    function: str = "softmax"
    groups: int = 1
    top_groups: int = 1
    group_best: int = 2

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Scores that add up to one for each token, with gradient: what Megatron-LM balances."""
        scores = score(logits, self.function)
        if self.function == "softmax":
            return scores
        return scores / (scores.sum(dim=-1, keepdim=True) + 1e-20)

    def choice(
        self, logits: torch.Tensor, bias: torch.Tensor | None, k: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(numbers [n, experts] whose k largest are chosen, gap [n]).

        gap: how far the choice is from another one: the k-th largest number minus the next (the
        k-th itself when there is none), or the same of the groups where that is smaller.
        """
        with torch.no_grad():
            numbers = score(logits, self.function)
            if bias is not None:
                numbers = numbers + bias.float()
            group_gap = None
            if self.groups > 1:
                numbers, group_gap = self._limited(numbers)
            gap = _gap(numbers, k)
            return numbers, gap if group_gap is None else torch.minimum(gap, group_gap)

    def _limited(self, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        grouped = numbers.unflatten(-1, (self.groups, -1))
        of_group = grouped.topk(self.group_best, dim=-1).values.sum(dim=-1)
        chosen = of_group.topk(self.top_groups, dim=-1).indices
        outside = torch.ones_like(of_group, dtype=torch.bool).scatter_(1, chosen, False)
        limited = grouped.masked_fill(outside[..., None], float("-inf")).flatten(-2)
        return limited, _gap(of_group, self.top_groups)


SOFTMAX = Scoring()


def _gap(numbers: torch.Tensor, k: int) -> torch.Tensor:
    best = torch.topk(numbers, min(k + 1, numbers.shape[-1]), dim=-1).values
    if k >= numbers.shape[-1]:
        return best[:, k - 1]
    following = best[:, k]
    return best[:, k - 1] - following.masked_fill(following.isinf(), 0.0)


def scoring_of(config: Any) -> Scoring:
    """The scoring of a transformers configuration."""
    model_type = str(config.model_type)
    groups = int(getattr(config, "n_group", None) or 1)
    if model_type == "deepseek_v2" and config.topk_method != "group_limited_greedy":
        groups = 1
    return Scoring(
        function=SCORES.get(model_type, "softmax"),
        groups=groups,
        top_groups=int(getattr(config, "topk_group", None) or 1),
        group_best=_GROUP_BEST.get(model_type, 2),
    )
