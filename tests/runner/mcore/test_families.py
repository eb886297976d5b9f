"""Every mapped family: weights both ways by bits, logits and gradients of the stock class."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import mcore_families as page
from certify import records
from runner.backends.mcore.mappings import FAMILIES, NOT_MAPPED
from tests.runner.mcore import tiny

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parents[3]
LOGITS, GRADIENTS = 2e-6, 1e-5
YARN = {
    "rope_type": "yarn",
    "factor": 40.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
# Beside the rows' own configurations: branches that no row of the list takes at this scale.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "glm4": ("glm4-9b", {"model_type": "glm4"}),
    "window-below-length": ("mistral-7b", {"sliding_window": 8}),
    "norms-and-groups": (
        "glm4p5-air-moe-106b",
        {"use_qk_norm": True, "attention_bias": True, "n_group": 2, "topk_group": 1},
    ),
    "two-best-of-a-group": (
        "deepseek-v3-671b",
        {"n_routed_experts": 16, "num_experts_per_tok": 4, "topk_group": 1, "rope_scaling": YARN},
    ),
    "one-best-of-a-group": (
        "deepseek-v2-236b",
        {
            "topk_method": "group_limited_greedy",
            "n_routed_experts": 16,
            "num_experts_per_tok": 4,
        },
    ),
    "full-queries": ("deepseek-v3-671b", {"q_lora_rank": None}),
    "linear-scaling": ("llama2-7b", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "grouped-fused": ("phi3p5-mini-instruct", {"num_key_value_heads": 2}),
}
# What Megatron's side is told wrongly; each must show in the logits.
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "cap": ("gemma2-9b", {"attn_logit_softcapping": None}),
    "final-cap": ("gemma2-9b", {"final_logit_softcapping": None}),
    "window": ("mistral-7b", {"sliding_window": 9}),
    "scale": ("gemma2-9b", {"query_pre_attn_scalar": 64}),
    "groups": ("deepseek-v3-671b", {"n_group": 1}),
    "share": ("glm4p5-air-moe-106b", {"partial_rotary_factor": 1.0}),
    "scaling": ("llama3p1-8b", {"rope_scaling": None}),
}


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, Any]]:
    """Trial -> configuration, of every row of the support list."""
    return page.table().configs


def trials(
    folder: Path, configs: dict[str, Any], wrong: dict[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    file = folder / "trial.json"
    file.write_text(json.dumps({"configs": configs, "wrong": wrong or {}}))
    done = subprocess.run(
        [sys.executable, "-m", "runner.families.mcore", str(file)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def agree(outcomes: dict[str, dict[str, Any]]) -> None:
    for name, outcome in outcomes.items():
        assert outcome.get("bitwise") is True, (name, outcome)
        assert not outcome["runs"] or outcome["logits"] <= LOGITS, (name, outcome)
        assert not outcome["runs"] or outcome["gradients"] <= GRADIENTS, (name, outcome)


def test_one_of_every_type_and_every_branch(
    megatron: None, configs: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    first: dict[str, str] = {}
    for name, config in configs.items():
        if config["model_type"] in FAMILIES and config.get("attention_bias") is not True:
            first.setdefault(config["model_type"], name)
    first["glm"], first["seed_oss"] = "glm4-9b", "seed-oss-36b"
    assert set(first) | {"glm4"} == set(FAMILIES), "every mapped type is tried here"
    wanted = {name: configs[name] for name in first.values()}
    wanted |= {name: {**configs[base], **new} for name, (base, new) in VARIANTS.items()}
    wrong = {name: new for name, (_, new) in WRONG.items()}
    right = {name: configs[base] for name, (base, _) in WRONG.items()}
    right["window"] = wanted["window-below-length"]
    right["groups"] = wanted["two-best-of-a-group"]
    assert not set(wanted) & set(right)
    outcomes = trials(tmp_path, wanted | right, wrong)
    agree({name: outcomes[name] for name in wanted})
    for name in right:
        assert outcomes[name]["logits"] > 1e-3, f"{name} changes nothing: {outcomes[name]}"


@pytest.mark.slow
def test_every_row(megatron: None, tmp_path: Path) -> None:
    found = page.table()
    names = {line.trial for line in page.lines(found) if line.trial and line.group}
    outcomes = trials(tmp_path, {name: found.configs[name] for name in sorted(names)})
    assert set(outcomes) == names
    agree(outcomes)


def test_the_page_says_what_the_mappings_say() -> None:
    text = (ROOT / "docs" / "mcore_families.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    told = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    expected = page.lines(page.table())
    assert len(expected) == 118
    assert [row[:2] for row in told] == [[line.row, line.model_type] for line in expected]
    for row, line in zip(told, expected, strict=True):
        if line.group is None:
            assert row[2:6] == ["-"] * 4
            assert row[6].rstrip(" |") == line.why
            continue
        assert row[2:4] == [line.group, "bitwise"]
        if line.group == "ssm":
            assert row[4:6] == ["-", "-"]
        else:
            assert float(row[4]) <= LOGITS
            assert float(row[5]) <= GRADIENTS
    built = sum(line.group not in (None, "ssm") for line in expected)
    assert re.search(rf"\b{built} are built", text)


def test_a_type_is_mapped_or_explained() -> None:
    assert not set(FAMILIES) & set(NOT_MAPPED)
    for line in page.lines(page.table()):
        assert line.group or line.why, line.row


# group -> (trial, ranks, layout)
LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense-tp2": ("gemma2-9b", {"tp_size": 2}),
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "mla-ep2": ("deepseek-v3-671b", {"ep_size": 2, "moe_dispatcher": "alltoall"}),
    "dense-pp2": ("gemma2-9b", {"pp_size": 2}),
    "fused-tp2": ("glm4-9b", {"tp_size": 2}),
    "mla-pp2": ("deepseek-v2-lite-16b", {"pp_size": 2}),
    "moe-ep2": ("qwen2-57b-a14b", {"ep_size": 2}),
    "moe-pp2": ("minimax-m2p7-moe-229b", {"pp_size": 2}),
}


@pytest.mark.parametrize(
    "name", [*LAYOUTS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)]
)
def test_layouts(
    megatron: None, configs: dict[str, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    trial, layout = (LAYOUTS | MORE)[name]
    config = {**configs[trial], "vocab_size": tiny.VOCAB}
    spec = tiny.make_spec(
        tmp_path, config, 3, micro_batch=1, aux_loss_formula="megatron-micro-batch"
    )
    alone = tiny.start(spec)
    assert alone.code == 0, alone.stderr
    spread = tiny.start(
        replace(
            tiny.with_layout(spec, "spread", 2, **layout), role="candidate", evidence=spec.evidence
        )
    )
    assert spread.code == 0, spread.stderr
    for number, step in alone.file.steps().items():
        other = spread.file.steps()[number]
        assert other.loss == pytest.approx(step.loss, rel=2e-6)
        assert other.grad_norm == pytest.approx(step.grad_norm, rel=1e-5)
        assert other.routing_sha256 == step.routing_sha256
    (first, *_), (second, *_) = (run.file.of(records.State) for run in (alone, spread))
    assert first.digests["params"] == second.digests["params"]
    assert first.digests.get("router_bias") == second.digests.get("router_bias")
