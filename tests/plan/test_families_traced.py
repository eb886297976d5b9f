"""Formula and trace over every family that both know, at the published dimensions (slow)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from certify.plan import build
from certify.plan.facts import of_config
from certify.plan.layout import Cluster, Fsdp2Layout
from certify.plan.trace import compare, depths, run_trace, spec_of, untraceable
from certify.recipes.models import load_model

# One published model of each family.
MODELS = (
    "deepseek-v2-lite-16b",
    "deepseek-v3-671b",
    "ernie4p5-moe-21b-a3b",
    "gemma-2b",
    "gemma2-9b",
    "glm4-9b",
    "glm4p5-air-moe-106b",
    "gpt-oss-moe-20b",
    "internlm3-8b",
    "llama3-8b",
    "minicpm3-4b",
    "minimax-m2p7-moe-229b",
    "mistral-7b",
    "mixtral-8x7b",
    "phi3p5-mini-instruct",
    "phi3p5-moe-instruct",
    "qwen2-57b-a14b",
    "qwen2-7b",
    "qwen3-32b",
    "qwen3-235b-a22b",
    "qwen3-next-80b-a3b",
    "qwen3p5-27b",
    "qwen3p5-35b-a3b",
    "seed-oss-36b",
)
DENSE = Fsdp2Layout(fsdp=16, seq_length=4096)
MOE = Fsdp2Layout(fsdp=128, ep=8, ep_fsdp=16, seq_length=4096)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("recompute", [True, False], ids=["recomputed", "kept"])
@pytest.mark.parametrize("name", MODELS)
def test_formula_and_trace_agree(name: str, recompute: bool, tmp_path: Path) -> None:
    config = load_model(name).config
    model = build.architecture(of_config(config))
    layout = replace(MOE if any(x.moe for x in model.layers) else DENSE, recompute=recompute)
    spec = spec_of(config, layout, depths(model, config), str(tmp_path / "trace.json"))
    result = run_trace(spec, tmp_path)
    found = compare(model, layout, Cluster(16, 8), result)
    assert [(c.name, c.difference) for c in found if not c.agrees] == []


@pytest.mark.parametrize(
    ("name", "word"), [("glm5-moe-744b", "indexer"), ("longcat-moe-560b", "without weights")]
)
def test_what_cannot_be_traced_is_said(name: str, word: str) -> None:
    reason = untraceable(build.architecture(of_config(load_model(name).config)))
    assert reason is not None
    assert word in reason
