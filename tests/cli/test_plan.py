"""``certify plan`` as a command: output, JSON and exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from certify.cli import main


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["plan", *words])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = call(capsys, *words, "--json")
    return code, json.loads(out)


def test_a_recipe_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "qwen3-235b", "--backend", "fsdp2")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "qwen3-235b-a22b-4k-fsdp2, fsdp2: FITS"
    assert "layout     fsdp 256, ep 2, ep_fsdp 128, micro-batch 4, recompute, reduce bf16, " in out
    assert "148.3 GFLOP/token (causal-active-v1), 4,194,304 tokens a step" in out
    assert "<- dominates" in out
    assert any(line.startswith("  all_to_all     ep 2") for line in lines)


def test_a_recipe_that_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = document(capsys, "qwq-32b", "--backend", "mcore")
    assert code == 1
    assert found["schema"] == "certify.plan/1"
    assert not found["fits"]
    memory = found["memory"]
    assert memory["total_bytes"] > memory["limit_bytes"]
    assert memory["total_bytes"] == pytest.approx(sum(memory["parts"].values()))
    assert memory["dominant"] == max(memory["parts"], key=lambda part: memory["parts"][part])
    assert any(change["fits"] for change in found["changes"])


def test_the_exact_chip_decides(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "qwen3-235b", "--backend", "mcore", "--chip", "910B3")[0] == 0
    assert document(capsys, "qwen3-235b", "--backend", "mcore", "--chip", "910B4")[0] == 1


def test_a_missing_fact(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "internlm-65b")
    assert (code, out) == (3, "")
    assert "vocabulary size" in err
    assert err.endswith("hint: --vocab ROWS\n")
    assert call(capsys, "internlm-65b", "--vocab", "100008")[0] == 0


def test_the_time_bound_needs_speeds(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = document(capsys, "qwen3-8b", "--backend", "mcore", "--mfu", "0.4")
    assert found["time"] is None
    assert any("--peak TFLOPS" in note for note in found["notes"])
    words = ("--mfu", "0.4", "--peak", "300", "--bandwidth", "100,20")
    _, found = document(capsys, "qwen3-8b", "--backend", "mcore", *words)
    compute = found["step_flops"] / (8 * 300e12 * 0.4)
    # pp 2, 16 micro-batches: (pp - 1) / 16 of the time is idle.
    assert found["time"]["compute_s"] == pytest.approx(compute * (1 + 1 / 16))


def test_a_model_without_a_row_for_the_backend(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = document(capsys, "llama2-7b-4k", "--backend", "fsdp2", "--suggest")
    assert code == 0
    assert found["notes"][0] == (
        "no published row of this model uses fsdp2: from llama2-7b-4k-mcore"
    )
    assert all(plan["fits"] for plan in found["suggested"])


@pytest.mark.parametrize(
    "words",
    [
        ("--bandwidth", "fast"),
        ("--mfu", "40"),
        ("--mfu", "nan"),
        ("--peak", "inf"),
        ("--bandwidth", "nan,25"),
        ("--bandwidth", "196,-1"),
        ("--nodes", "0"),
        ("--chip", "H200"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert call(capsys, "qwen3-8b", *words)[0] == 2


@pytest.mark.torch
def test_trace_of_a_megatron_layout_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "qwen3-8b", "--backend", "mcore", "--trace")
    assert code == 3
    assert "only FSDP2 layouts" in err
