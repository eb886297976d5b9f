"""Logs of other people's runs, as several releases print them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from certify.cli import main
from certify.errors import UsageError
from certify.recipes.load import load_recipe
from certify.reference import recorded
from certify.reference.foreign import differences, read_log

CORE = (
    " [2026-05-01 10:00:{n:02d}] iteration{n:9d}/    2000 | consumed samples: {c:12d} |"
    " elapsed time per iteration (ms): 1234.5 | learning rate: {lr:.6E} |"
    " global batch size:    32 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
MOE = (
    "\x1b[32mrank 7\x1b[0m: iteration {n}/{total} | throughput per GPU (TFLOP/s/GPU): 201.3 |"
    " learning rate: 1.25E-06 | lm loss: 9.5E+00 | load_balancing_loss: 1.002E+00 |"
    " grad norm: 2.5 | num zeros: 0 |"
)


def core(n: int, loss: float = 11.5, lr: float = 1e-6, norm: float = 3.25) -> str:
    return CORE.format(n=n, c=32 * n, loss=loss, lr=lr, norm=norm)


def test_a_core_log() -> None:
    lines = ["training ...", *(core(n, loss=12 - n / 10) for n in range(1, 6)), "saved"]
    found = read_log(lines, "x.log")
    assert [s.step for s in found.steps] == [1, 2, 3, 4, 5]
    assert (found.planned, found.repeated) == (2000, ())
    first = found.steps[0]
    assert (first.loss, first.grad_norm, first.lr) == (11.9, 3.25, 1e-6)
    assert (first.global_batch, first.step_time_ms, first.skipped) == (32, 1234.5, 0)
    # 1.190000E+01: half of the last digit.
    assert first.loss_resolution == pytest.approx(5e-6)


def test_colours_prefixes_and_other_fields() -> None:
    (step,) = read_log([MOE.format(n=3, total=10)], "x.log").steps
    assert (step.loss, step.aux_loss, step.grad_norm, step.global_batch) == (9.5, 1.002, 2.5, None)
    assert step.loss_resolution == pytest.approx(0.05)


def test_a_restart_counts_the_last_attempt_and_says_so() -> None:
    lines = [core(1), core(2, loss=11.4), core(2, loss=11.4), core(2, loss=11.3), core(3)]
    found = read_log(lines, "x.log")
    assert [s.loss for s in found.steps] == [11.5, 11.3, 11.5]
    assert found.repeated == (2,)


def test_what_is_not_finite_is_kept_and_written() -> None:
    found = read_log([core(1), core(2, loss=math.nan, norm=math.inf)], "x.log")
    assert math.isnan(found.steps[1].loss or 0.0)
    assert found.steps[1].loss_resolution is None
    rows = [json.loads(line) for line in found.text().splitlines()]
    assert (rows[1]["loss"], rows[1]["grad_norm"]) == ("nan", "inf")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no iteration"),
        (["loss: 3.0"], "no iteration"),
        (["iteration 1/ 10 | learning rate: 1.0E-6 |"], "no loss"),
        (["iteration 1/ 10 | lm loss: none |"], "no loss"),
    ],
)
def test_a_log_without_a_trajectory_is_refused(lines: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_log(lines, "x.log")


def test_where_a_log_is_not_of_the_recipe() -> None:
    raw = load_recipe("qwen3-0p6b-4k-mcore").raw
    assert differences(read_log([core(1, lr=1.25e-6)], "x"), raw) == []
    wrong = read_log([core(1, lr=2e-6).replace("2000", "500").replace("  32 |", "  64 |")], "x")
    assert differences(wrong, raw) == [
        "global batch 64, recipe 32",
        "learning rate up to 2e-06, recipe 1.25e-06",
        "500 steps planned, recipe 2000",
    ]


def test_an_imported_log_is_kept_but_never_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(core(n, lr=2e-6) for n in range(1, 4)))
    words = ["reference", "import", str(log), "--recipe", "qwen3-0.6b"]
    home = ["--home", str(tmp_path / "home"), "--json"]
    assert main([*words, *home]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["recipe"] == "qwen3-0p6b-4k-mcore"
    assert "note: learning rate up to 2e-06" in err
    kept = recorded.read(Path(document["folder"]))
    assert (kept.kind, kept.steps) == ("imported", 3)
    assert main(["reference", "verify", kept.name, *home]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "INCONCLUSIVE"
    assert main([*words, *home]) == 2  # the folder holds one already
    assert main(["reference", "import", str(tmp_path / "no.log"), "--recipe", "qwen3-8b"]) == 2
