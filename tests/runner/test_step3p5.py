"""The own class of Step-3.5 against plain formulas, and through the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from reference_runs.oracle import read_weights, rotary_angles
from runner.describe import describe
from runner.families.check import Trial, check
from runner.initial_weights import draw
from tests.runner import family_configs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

Tensors = dict[str, torch.Tensor]


def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * (weight + 1)


def turn(vector: torch.Tensor, position: int, base: float, share: float) -> torch.Tensor:
    """Rotary embedding of one head's vector: pairs (i, i + half) of its turning share."""
    size = int(len(vector) * share)
    half = size // 2
    angles = rotary_angles(position + 1, size, base, torch.float32)[position].double()
    out = vector.clone()
    for i, angle in enumerate(angles):
        a, b = vector[i], vector[i + half]
        out[i] = a * angle.cos() - b * angle.sin()
        out[i + half] = b * angle.cos() + a * angle.sin()
    return out


def attend(x: torch.Tensor, w: Tensors, at: str, config: dict[str, Any], layer: int) -> Any:
    """One sample [S, H], token by token and head by head."""
    eps, width = config["rms_norm_eps"], config["head_dim"]
    windowed = config["layer_types"][layer] == "sliding_attention"
    base = config["rope_theta"][layer]
    share = config.get("partial_rotary_factors", [1.0] * 64)[layer]
    other = config["attention_other_setting"] if windowed else config
    heads, groups = other["num_attention_heads"], other["num_attention_groups"]
    q = (x @ w[at + "q_proj.weight"].T).view(len(x), heads, width)
    k = (x @ w[at + "k_proj.weight"].T).view(len(x), groups, width)
    v = (x @ w[at + "v_proj.weight"].T).view(len(x), groups, width)
    q, k = norm(q, w[at + "q_norm.weight"], eps), norm(k, w[at + "k_norm.weight"], eps)
    gate = (x @ w[at + "g_proj.weight"].T).sigmoid()
    out = torch.zeros(len(x), heads, width, dtype=x.dtype)
    for head in range(heads):
        group = head // (heads // groups)
        turned_q = torch.stack([turn(q[s, head], s, base, share) for s in range(len(x))])
        turned_k = torch.stack([turn(k[s, group], s, base, share) for s in range(len(x))])
        for s in range(len(x)):
            first = max(0, s - config["sliding_window"] + 1) if windowed else 0
            scores = turned_k[first : s + 1] @ turned_q[s] / width**0.5
            out[s, head] = scores.softmax(0) @ v[first : s + 1, group] * gate[s, head]
    return out.flatten(1) @ w[at + "o_proj.weight"].T


def feed(x: torch.Tensor, gate: Any, up: Any, down: Any, limit: float) -> torch.Tensor:
    a, b = torch.nn.functional.silu(gate @ x), up @ x
    if limit:
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    return down @ (a * b)


def mix(x: torch.Tensor, w: Tensors, at: str, config: dict[str, Any], layer: int) -> Any:
    """Routed and shared experts for one token [H]."""
    parts = ("gate_proj", "up_proj", "down_proj")
    scores = (w[at + "moe.gate.weight"] @ x).sigmoid()
    order = (scores + w[at + "moe.router_bias"]).argsort(descending=True)
    chosen = order[: config["moe_top_k"]]
    shared = [w[f"{at}share_expert.{part}.weight"] for part in parts]
    total = feed(x, *shared, config["swiglu_limits_shared"][layer])
    for expert in chosen:
        mine = [w[f"{at}moe.{part}.weight"][expert] for part in parts]
        found = feed(x, *mine, config["swiglu_limits"][layer])
        share = scores[expert] / scores[chosen].sum()
        total = total + config["moe_router_scaling_factor"] * share * found
    return total


def plain_logits(tokens: torch.Tensor, w: Tensors, config: dict[str, Any]) -> torch.Tensor:
    """Float64, published names: nothing of the class that is tested."""
    w = {name: tensor.double() for name, tensor in w.items()}
    rows, eps = [], config["rms_norm_eps"]
    for sample in tokens:
        x = w["model.embed_tokens.weight"][sample]
        for layer in range(config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            before = norm(x, w[at + "input_layernorm.weight"], eps)
            x = x + attend(before, w, at + "self_attn.", config, layer)
            before = norm(x, w[at + "post_attention_layernorm.weight"], eps)
            if at + "moe.gate.weight" in w:
                x = x + torch.stack([mix(t, w, at, config, layer) for t in before])
            else:
                names = ("gate_proj", "up_proj", "down_proj")
                dense = [w[f"{at}mlp.{part}.weight"] for part in names]
                x = x + torch.stack([feed(t, *dense, 0.0) for t in before])
        rows.append(norm(x, w["model.norm.weight"], eps) @ w["lm_head.weight"].T)
    return torch.stack(rows)


def configuration() -> dict[str, Any]:
    config = family_configs.tiny("step3p5")
    depth = config["num_hidden_layers"]
    # Limits low enough to act, and a head of which a part turns.
    limits = {"swiglu_limits": [0.02] * depth, "swiglu_limits_shared": [0.03] * depth}
    return {**config, **limits, "partial_rotary_factors": [0.5, *[1.0] * (depth - 1)]}


def test_the_class_computes_the_published_mathematics(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    config = configuration()
    assert {"full_attention", "sliding_attention"} == set(config["layer_types"])
    draw(config, 5, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path)).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            # Norms other than one and biases other than zero: otherwise neither would show.
            if tensor.dim() == 1:
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.1)
            elif "embed" not in name:
                tensor.mul_(3)
    model.save_pretrained(str(tmp_path))
    weights = read_weights(tmp_path)
    assert "model.layers.3.moe.router_bias" in weights
    assert weights["model.layers.3.moe.gate_proj.weight"].dim() == 3
    tokens = torch.randint(0, config["vocab_size"], (2, 24), generator=generator)
    expected = plain_logits(tokens, weights, config)
    with torch.no_grad():
        found = model(input_ids=tokens).logits
    assert float(expected.std()) > 0.1
    assert float((found.double() - expected).abs().max()) < 1e-5


def test_it_trains_resumes_exports_and_reloads(tmp_path: Path) -> None:
    trial = Trial(configuration(), tmp_path, "float32", 20, 64, 1)
    result = check(trial)
    assert result["ok"], result
    assert result["model_class"] == "Step3p5ForCausalLM"


def test_its_cost_is_one_file_and_its_experts_can_be_divided() -> None:
    found = describe(configuration())
    assert found["stock"] is False
    assert found["own_files"] == 1
    assert found["own_lines"] > 100
    assert found["ep_modules"] == ["model.layers.{*}.mlp.experts"]
    assert describe(family_configs.tiny("llama"))["own_lines"] == 0
