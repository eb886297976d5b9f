"""Every family trains, resumes, exports and reloads; what its routers chose is understood."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from certify.runspec import FamiliesSpec, write_families_spec
from runner import balance
from runner.callpoints import Fault
from runner.families.check import Trial, check
from runner.modules import patterns
from runner.routing import Routed, RouterTap
from runner.scores import Scoring
from tests.runner import family_configs
from tests.runner.tiny import ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

# One with latent attention, a choice bias and groups; one with linear attention.
SAMPLE = ("deepseek_v3", "qwen3_next")


def trial_of(model_type: str, folder: Path, dtype: str) -> Trial:
    return Trial(family_configs.tiny(model_type), folder, dtype, 20, 64, 1)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("model_type", family_configs.sampled(*SAMPLE))
def test_trains_resumes_exports_and_reloads(model_type: str, dtype: str, tmp_path: Path) -> None:
    family_configs.known(model_type)
    result = check(trial_of(model_type, tmp_path, dtype))
    assert result["ok"], result


def test_a_stage_that_fails_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of("qwen3", tmp_path, "float32")
    bad = {**trial.config, "hidden_act": "no-such-function"}
    result = check(dataclasses.replace(trial, config=bad))
    assert (result["ok"], result["stage"]) == (False, "build")
    assert "no-such-function" in result["reason"]
    unknown = check(dataclasses.replace(trial, config={"model_type": "qwen99"}))
    assert (unknown["ok"], unknown["stage"]) == (False, "build")
    # The export is compared with the stock class bit by bit.
    shifted = "runner.families.check.stock_logits"
    monkeypatch.setattr(shifted, lambda folder, samples: torch.zeros(4 * 64, 96))
    result = check(trial)
    assert (result["ok"], result["stage"]) == (False, "export")


# Experts with biases published in one tensor; experts behind a choice bias.
@pytest.mark.slow
@pytest.mark.parametrize(
    "model_type", [t for t, c in family_configs.public().items() if "experts" in str(c)]
)
def test_divided_experts_train_resume_and_export_alike(model_type: str, tmp_path: Path) -> None:
    family_configs.known(model_type)
    spec = FamiliesSpec(
        {model_type: family_configs.tiny(model_type)},
        str(tmp_path / "out.json"),
        str(tmp_path / "work"),
        dtypes=("float32",),
    )
    write_families_spec(spec, tmp_path / "spec.json")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    program = ["--nproc-per-node=2", "-m", "runner.families", str(tmp_path / "spec.json")]
    done = subprocess.run(
        [sys.executable, *torchrun, *program],
        env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out.json").read_text())["results"][model_type]["float32"]
    assert result["ok"], result
    assert result["ep_size"] == (1 if model_type == "longcat_flash" else 2)


@pytest.mark.parametrize(
    "model_type", family_configs.sampled("deepseek_v3", "minimax_m2", "gpt_oss")
)
def test_the_scores_explain_what_the_routers_chose(model_type: str) -> None:
    model = family_configs.stock(model_type).eval()
    tap = RouterTap(model, Fault())
    if not tap.layers:
        pytest.skip("no routers")
    generator = torch.Generator().manual_seed(1)
    for bias in tap.biases:
        if bias is not None:
            bias.copy_(torch.randn(bias.shape, generator=generator) * 0.05)
    tokens = torch.randint(0, family_configs.VOCABULARY, (2, 64), generator=generator)
    with torch.no_grad(), tap.recording() as routed:
        model(input_ids=tokens)
    assert len(routed) == len(tap.layers)
    for one in routed:
        numbers, gap = one.scoring.choice(one.logits, one.bias, one.ids.shape[-1])
        chosen = numbers.topk(one.ids.shape[-1]).indices.sort(-1).values
        clear = gap > 1e-6
        assert clear.float().mean() > 0.9
        assert torch.equal(chosen[clear], one.ids.sort(-1).values[clear])
        assert torch.allclose(one.probabilities().sum(-1), torch.ones(len(chosen)))


def test_a_group_that_is_nearly_another_makes_the_choice_near() -> None:
    scoring = Scoring(function="softmax", groups=2, top_groups=1)
    logits = torch.tensor([[2.0, 1.0, 1.9, 1.1], [5.0, 4.0, 0.0, 0.0]])
    numbers, gap = scoring.choice(logits, None, 1)
    assert numbers.isinf().sum(-1).tolist() == [2, 2]
    assert gap[0] < 0.03 < gap[1]


def test_biases_move_towards_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.loss.sum_over_ranks", lambda values: values)
    logits, bias = torch.zeros(4, 3), torch.zeros(3)
    routed = [Routed(logits, torch.tensor([[0], [0], [0], [1]])) for _ in range(2)]
    balance.update_biases([bias, None], [routed], 0.25)
    # Counts 3, 1, 0 of mean 4/3.
    assert bias.tolist() == [-0.25, 0.25, 0.25]
    balance.update_biases([bias, None], [routed], 0.0)
    assert bias.tolist() == [-0.25, 0.25, 0.25]


@pytest.mark.parametrize(
    ("model_type", "fsdp", "experts"),
    [
        ("gpt_oss", "model.layers.{*}", ("model.layers.{*}.mlp.experts",)),
        ("llama", "model.layers.{*}", ()),
    ],
)
def test_the_patterns_of_a_model_name_its_blocks_and_experts(
    model_type: str, fsdp: str, experts: Any
) -> None:
    found = patterns(family_configs.stock(model_type))
    assert found.fsdp == (fsdp, "model.embed_tokens", "lm_head")
    assert found.experts == experts
    assert found.n_experts == (8 if experts else 0)
