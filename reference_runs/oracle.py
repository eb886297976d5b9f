"""The published decoder mathematics in float64: what every implementation should compute.

Plain torch, one function per formula, nothing of transformers or megatron and nothing fast. The
distance of a float32 implementation from this one is its rounding error, and the yardstick for
the distance of another implementation.

Families (Hugging Face ``model_type``): llama, qwen2, qwen3, qwen3_moe.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file

from certify.errors import CannotJudgeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

FAMILIES = ("llama", "qwen2", "qwen3", "qwen3_moe")


class Output(NamedTuple):
    """logits: float64 [B, S, V]. Per decoder layer with a router, tokens in sample order:
    topk: int16 [B * S, k], ascending; topk_gap: float64 [B * S], the k-th largest probability
    minus the next (the k-th itself when there is no next); router: float64 [B * S, E], the
    probabilities of all experts, empty where they are not kept."""

    logits: Tensor
    topk: dict[int, Tensor]
    topk_gap: dict[int, Tensor]
    router: dict[int, Tensor]


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """The tensors of a Hugging Face checkpoint folder (safetensors), by published name."""
    folder = Path(folder)
    index = folder / "model.safetensors.index.json"
    files = {"model.safetensors"}
    if index.is_file():
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return {name: t for file in files for name, t in load_file(folder / file).items()}


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rotary_angles(length: int, head_dim: int, theta: float, dtype: torch.dtype) -> Tensor:
    """Angles position * theta^(-2i / head_dim), [S, head_dim / 2], rounded to dtype."""
    exponents = torch.arange(0, head_dim, 2, dtype=dtype) / head_dim
    return torch.outer(torch.arange(length, dtype=dtype), 1.0 / theta**exponents)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary embedding of [B, heads, S, head_dim]: dimension i turns with i + head_dim / 2."""
    cos, sin = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(d)) v over the positions up to one's own, [B, heads, S, d]; heads of
    k and v serve consecutive groups of query heads."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(-1) @ v


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """down (silu(gate x) * up x); weights are [out, in]."""
    return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T


class Oracle:
    """One model in float64.

    hf_config: the flat Hugging Face configuration; weights: tensors by published name.
    angle_dtype: precision of the rotary angles. Published models define them in float32: the
    rounding of position * frequency belongs to the model and not to the error of one
    implementation, so that is the default. float64 gives the exact formula.
    Raises CannotJudgeError for a configuration that is not implemented here.
    """

    def __init__(
        self,
        hf_config: dict[str, Any],
        weights: Mapping[str, Tensor],
        angle_dtype: torch.dtype = torch.float32,
    ) -> None:
        _require_implemented(hf_config)
        self.config = hf_config
        self.weights = {name: tensor.double() for name, tensor in weights.items()}
        self.angle_dtype = angle_dtype
        self.heads = int(hf_config["num_attention_heads"])
        self.head_dim = int(hf_config.get("head_dim") or hf_config["hidden_size"] // self.heads)

    def forward(self, tokens: Tensor) -> Output:
        """tokens: int64 [B, S]."""
        with torch.no_grad():
            return self.differentiable(tokens)

    def differentiable(self, tokens: Tensor) -> Output:
        """The same, through which gradients flow to `weights` that ask for them."""
        eps, weights = self.config["rms_norm_eps"], self.weights
        head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
        routed: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        angles = self._angles(tokens.shape[1])
        x = weights["model.embed_tokens.weight"][tokens]
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            before = rms_norm(x, weights[at + "input_layernorm.weight"], eps)
            x = x + self._attention(before, at + "self_attn.", angles)
            before = rms_norm(x, weights[at + "post_attention_layernorm.weight"], eps)
            if at + "mlp.gate.weight" in weights:
                update, routed[layer] = self._experts(before.flatten(0, 1), at + "mlp.")
                x = x + update.view_as(x)
            else:
                x = x + swiglu(before, *self._mlp(at + "mlp."))
        logits = rms_norm(x, weights["model.norm.weight"], eps) @ head.T
        topk, gaps, router = (
            {layer: found[part] for layer, found in routed.items()} for part in range(3)
        )
        return Output(logits, topk, gaps, router)

    def _angles(self, length: int) -> Tensor:
        theta = float(_rope(self.config)["rope_theta"])
        return rotary_angles(length, self.head_dim, theta, self.angle_dtype).double()

    def _mlp(self, at: str) -> list[Tensor]:
        return [self.weights[f"{at}{name}_proj.weight"] for name in ("gate", "up", "down")]

    def _attention(self, x: Tensor, at: str, angles: Tensor) -> Tensor:
        def heads(name: str) -> Tensor:
            y = x @ self.weights[f"{at}{name}_proj.weight"].T
            y = y + self.weights.get(f"{at}{name}_proj.bias", 0.0)
            y = y.unflatten(-1, (-1, self.head_dim))
            norm = self.weights.get(f"{at}{name}_norm.weight")
            if norm is not None:
                y = rms_norm(y, norm, self.config["rms_norm_eps"])
            return y.transpose(1, 2)

        q, k = rotate(heads("q"), angles), rotate(heads("k"), angles)
        mixed = causal_attention(q, k, heads("v")).transpose(1, 2).flatten(2)
        return mixed @ self.weights[at + "o_proj.weight"].T

    def _experts(self, x: Tensor, at: str) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """(update [n, H], (sets, gaps, probabilities)): the chosen experts' outputs, weighted."""
        k = int(self.config["num_experts_per_tok"])
        probabilities = (x @ self.weights[at + "gate.weight"].T).softmax(-1)
        best, ids = probabilities.sort(dim=-1, descending=True, stable=True)
        chosen = best[:, :k]
        gap = chosen[:, -1] - (best[:, k] if best.shape[1] > k else 0.0)
        if self.config.get("norm_topk_prob", False):
            chosen = chosen / chosen.sum(-1, keepdim=True)
        update = torch.zeros_like(x)
        for expert in range(probabilities.shape[1]):
            token, place = (ids[:, :k] == expert).nonzero(as_tuple=True)
            found = swiglu(x[token], *self._mlp(f"{at}experts.{expert}."))
            update[token] += chosen[token, place, None] * found
        return update, (ids[:, :k].sort(dim=-1).values.to(torch.int16), gap, probabilities)


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """The rotary parameters, whether they stand at the top (older files) or by themselves."""
    top = {key: config[key] for key in ("rope_theta",) if key in config}
    return {"rope_type": "default", **top, **(config.get("rope_parameters") or {})}


def _require_implemented(config: dict[str, Any]) -> None:
    """Raises CannotJudgeError for mathematics that is not written above."""
    for key, found, accepted in (
        ("model_type", config.get("model_type"), FAMILIES),
        ("hidden_act", config.get("hidden_act", "silu"), ("silu",)),
        ("rope_scaling", config.get("rope_scaling"), (None,)),
        ("rope_parameters.rope_type", _rope(config)["rope_type"], ("default",)),
        ("rope_theta", "given" if "rope_theta" in _rope(config) else None, ("given",)),
        ("use_sliding_window", bool(config.get("use_sliding_window")), (False,)),
        ("mlp_bias", bool(config.get("mlp_bias")), (False,)),
    ):
        if found not in accepted:
            raise CannotJudgeError(
                f"the float64 oracle does not implement {key} = {found!r}",
                where=f"model.hf_config: {key}",
                expected=" or ".join(map(repr, accepted)),
            )
