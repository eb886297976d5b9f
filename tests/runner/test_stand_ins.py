"""Stand-ins: remapped weights against plain formulas over the published names, in float64."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file

from certify.errors import UsageError
from certify.recipes.stand_ins import STAND_INS, stand_in
from runner.compat import stock_model
from runner.stand_ins import REMAPS, main, remapped

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

HIDDEN, HEADS, GROUPS, WIDTH, INNER, LAYERS, VOCABULARY = 32, 4, 2, 8, 24, 2, 40
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "tie_word_embeddings": False,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "aquila": {**COMMON, "num_key_value_heads": GROUPS, "intermediate_size": INNER,
               "rms_norm_eps": 1e-5},
    "internlm": {**COMMON, "intermediate_size": INNER, "rms_norm_eps": 1e-6, "bias": True},
    "internlm2": {**COMMON, "num_key_value_heads": GROUPS, "intermediate_size": INNER,
                  "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "bias": False},
    "qwen": {**COMMON, "intermediate_size": 2 * INNER, "layer_norm_epsilon": 1e-6,
             "rotary_emb_base": 10000, "seq_length": 64},
}  # fmt: skip


def shapes(model_type: str) -> dict[str, tuple[int, ...]]:
    """Published names and shapes."""
    groups = CONFIGS[model_type].get("num_key_value_heads", HEADS)
    full, few = HEADS * WIDTH, groups * WIDTH
    found: dict[str, tuple[int, ...]] = {}
    for n in range(LAYERS):
        if model_type == "internlm2":
            at = f"model.layers.{n}."
            found |= {
                f"{at}attention.wqkv.weight": (full + 2 * few, HIDDEN),
                f"{at}attention.wo.weight": (HIDDEN, full),
                f"{at}feed_forward.w1.weight": (INNER, HIDDEN),
                f"{at}feed_forward.w3.weight": (INNER, HIDDEN),
                f"{at}feed_forward.w2.weight": (HIDDEN, INNER),
                f"{at}attention_norm.weight": (HIDDEN,),
                f"{at}ffn_norm.weight": (HIDDEN,),
            }
        elif model_type == "qwen":
            at = f"transformer.h.{n}."
            found |= {
                f"{at}attn.c_attn.weight": (3 * full, HIDDEN),
                f"{at}attn.c_attn.bias": (3 * full,),
                f"{at}attn.c_proj.weight": (HIDDEN, full),
                f"{at}mlp.w1.weight": (INNER, HIDDEN),
                f"{at}mlp.w2.weight": (INNER, HIDDEN),
                f"{at}mlp.c_proj.weight": (HIDDEN, INNER),
                f"{at}ln_1.weight": (HIDDEN,),
                f"{at}ln_2.weight": (HIDDEN,),
            }
        else:
            at = f"model.layers.{n}."
            rows = {"q": full, "k": few, "v": few}
            found |= {f"{at}self_attn.{p}_proj.weight": (r, HIDDEN) for p, r in rows.items()}
            found[f"{at}self_attn.o_proj.weight"] = (HIDDEN, full)
            if model_type == "internlm":
                found |= {f"{at}self_attn.{p}_proj.bias": (r,) for p, r in rows.items()}
                found[f"{at}self_attn.o_proj.bias"] = (HIDDEN,)
                found[f"{at}self_attn.rotary_emb.inv_freq"] = (WIDTH // 2,)
            found |= {f"{at}mlp.{p}_proj.weight": (INNER, HIDDEN) for p in ("gate", "up")}
            found[f"{at}mlp.down_proj.weight"] = (HIDDEN, INNER)
            found |= {f"{at}{p}_layernorm.weight": (HIDDEN,) for p in ("input", "post_attention")}
    ends = {
        "internlm2": ("model.tok_embeddings.weight", "model.norm.weight", "output.weight"),
        "qwen": ("transformer.wte.weight", "transformer.ln_f.weight", "lm_head.weight"),
    }.get(model_type, ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"))
    first, norm, head = ends
    return {**found, first: (VOCABULARY, HIDDEN), norm: (HIDDEN,), head: (VOCABULARY, HIDDEN)}


def drawn(model_type: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    found = {}
    for name, shape in shapes(model_type).items():
        value = torch.randn(shape, generator=generator) * 0.3
        found[name] = value + 1 if "norm" in name or "ln_" in name else value
    return found


class Published:
    """The published decoder over published names, written for one vector at a time."""

    def __init__(self, model_type: str, tensors: dict[str, torch.Tensor]) -> None:
        self.kind, self.config = model_type, CONFIGS[model_type]
        self.w = {name: tensor.double() for name, tensor in tensors.items()}
        self.groups = self.config.get("num_key_value_heads", HEADS)
        self.eps = self.config.get("rms_norm_eps", self.config.get("layer_norm_epsilon"))

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return self.w[name] * x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)

    def heads(self, n: int, x: torch.Tensor) -> tuple[list[Any], list[Any], list[Any]]:
        """Vectors of one token: [query heads], [key heads], [value heads]."""
        if self.kind == "internlm2":
            rows = self.w[f"model.layers.{n}.attention.wqkv.weight"] @ x
            per_group = rows.view(self.groups, -1, WIDTH)
            q = [per_group[g, i] for g in range(self.groups) for i in range(HEADS // self.groups)]
            return q, list(per_group[:, -2]), list(per_group[:, -1])
        if self.kind == "qwen":
            at = f"transformer.h.{n}.attn.c_attn."
            rows = (self.w[at + "weight"] @ x + self.w[at + "bias"]).view(3, HEADS, WIDTH)
            return list(rows[0]), list(rows[1]), list(rows[2])
        at = f"model.layers.{n}.self_attn."
        found = []
        for part in "qkv":
            rows = self.w[f"{at}{part}_proj.weight"] @ x
            rows = rows + self.w.get(f"{at}{part}_proj.bias", 0)
            found.append(list(rows.view(-1, WIDTH)))
        return found[0], found[1], found[2]

    def turned(self, vector: torch.Tensor, position: int) -> torch.Tensor:
        base = self.config.get("rope_theta", self.config.get("rotary_emb_base", 10000.0))
        out, half = vector.clone(), WIDTH // 2
        for i in range(half):
            angle = position * base ** (-2 * i / WIDTH)
            a, b = vector[i], vector[i + half]
            out[i] = a * math.cos(angle) - b * math.sin(angle)
            out[i + half] = a * math.sin(angle) + b * math.cos(angle)
        return out

    def attention(self, n: int, rows: torch.Tensor) -> torch.Tensor:
        every = [self.heads(n, x) for x in rows]
        out = []
        for s in range(len(rows)):
            mixed = []
            for head in range(HEADS):
                group = head // (HEADS // self.groups)
                q = self.turned(every[s][0][head], s)
                keys = torch.stack([self.turned(every[t][1][group], t) for t in range(s + 1)])
                values = torch.stack([every[t][2][group] for t in range(s + 1)])
                mixed.append((keys @ q / math.sqrt(WIDTH)).softmax(0) @ values)
            out.append(torch.cat(mixed))
        name = {
            "internlm2": f"model.layers.{n}.attention.wo",
            "qwen": f"transformer.h.{n}.attn.c_proj",
        }.get(self.kind, f"model.layers.{n}.self_attn.o_proj")
        return torch.stack(out) @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def feed_forward(self, n: int, x: torch.Tensor) -> torch.Tensor:
        at, gate, up, down = {
            "internlm2": (f"model.layers.{n}.feed_forward.", "w1", "w3", "w2"),
            "qwen": (f"transformer.h.{n}.mlp.", "w2", "w1", "c_proj"),
        }.get(self.kind, (f"model.layers.{n}.mlp.", "gate_proj", "up_proj", "down_proj"))
        g = x @ self.w[f"{at}{gate}.weight"].T
        gated = g / (1 + (-g).exp()) * (x @ self.w[f"{at}{up}.weight"].T)
        return gated @ self.w[f"{at}{down}.weight"].T

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        before, after = {
            "internlm2": ("model.layers.{}.attention_norm", "model.layers.{}.ffn_norm"),
            "qwen": ("transformer.h.{}.ln_1", "transformer.h.{}.ln_2"),
        }.get(
            self.kind,
            ("model.layers.{}.input_layernorm", "model.layers.{}.post_attention_layernorm"),
        )
        first, last, head = list(shapes(self.kind))[-3:]
        x = self.w[first][tokens]
        for n in range(LAYERS):
            x = x + self.attention(n, self.norm(x, before.format(n) + ".weight"))
            x = x + self.feed_forward(n, self.norm(x, after.format(n) + ".weight"))
        return self.norm(x, last) @ self.w[head].T


@pytest.mark.parametrize("model_type", STAND_INS)
def test_remapped_weights_give_the_published_logits(model_type: str, tmp_path: Path) -> None:
    config = {"model_type": model_type, **CONFIGS[model_type]}
    tensors = drawn(model_type)
    source, target, stock = tmp_path / "source", tmp_path / "target", tmp_path / "stock.json"
    source.mkdir()
    save_file(tensors, str(source / "model.safetensors"))
    (source / "config.json").write_text(json.dumps(config))
    stock.write_text(json.dumps(stand_in(config)))
    assert main([str(source), str(target), str(stock)]) == 0
    model = stock_model(str(target), "sdpa", torch.float32).eval()
    tokens = torch.randint(0, VOCABULARY, (9,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = model(input_ids=tokens[None]).logits[0]
    expected = Published(model_type, tensors).logits(tokens)
    assert float(expected.std()) > 0.5
    assert float((found.double() - expected).abs().max()) < 1e-5 * float(expected.abs().max())


def test_both_tables_name_the_same_types_and_strangers_are_refused() -> None:
    assert set(REMAPS) == set(STAND_INS)
    with pytest.raises(UsageError, match="no stock class stands in for model type 'baichuan'"):
        remapped({"model_type": "baichuan"}, {})
    with pytest.raises(UsageError, match=r"no stock tensor for transformer\.odd"):
        remapped({"model_type": "qwen"}, {"transformer.odd": torch.zeros(1)})
    assert stand_in({"model_type": "baichuan"}) is None
