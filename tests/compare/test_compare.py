"""certify compare: formats are found, and nothing is claimed that files cannot carry."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from certify.cli import main
from certify.compare.formats import Curve, read_curve
from certify.compare.verdict import compare
from certify.errors import UsageError

LOSSES = {1: 7.0, 2: 6.5, 3: 6.25}
NORMS = {1: 2.0, 2: 1.5, 3: 1.25}
ROWS = [{"step": s, "loss": LOSSES[s], "grad_norm": NORMS[s]} for s in LOSSES]
LOG = "\n".join(
    f" iteration {s}/ 3 | lm loss: {LOSSES[s]:.6E} | grad norm: {NORMS[s]:.3f} |" for s in LOSSES
)
FILES = {
    "log": LOG,
    "trainer_state": json.dumps({"log_history": [*ROWS, {"step": 3, "train_loss": 6.6}]}),
    "json lines": "\n".join([*map(json.dumps, ROWS), '{"step": 4, "lo']),
    "lists": json.dumps({"lm loss": list(LOSSES.values()), "grad norm": list(NORMS.values())}),
}


@pytest.mark.parametrize("form", FILES)
def test_formats(tmp_path: Path, form: str) -> None:
    (tmp_path / "a").write_text(FILES[form])
    found = read_curve(str(tmp_path / "a"))
    assert (found.form, found.loss, found.grad_norm) == (form, LOSSES, NORMS)


def test_one_curve_of_several(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"x/y.sh": {"lm_loss": [3.0, 2.0], "grad_norm": None}}))
    assert read_curve(f"{path}#x/y.sh").loss == {1: 3.0, 2: 2.0}
    for name, what in ((str(path), "1 curves in one file"), (f"{path}#z", "no entry 'z'")):
        with pytest.raises(UsageError, match=what):
            read_curve(name)


@pytest.mark.parametrize("text", ["", "hello", "[]", "{}", "7", "{" * 9])
def test_what_holds_no_loss_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(UsageError, match="prints no iteration"):
        read_curve(str(tmp_path / "a"))


def series(n: int, factor: float = 1.0, noise: float = 1e-4) -> Curve:
    draw = random.Random(5 if factor == 1 else 6)
    losses = {s: factor * (7 - 2 * s / n) * (1 + draw.gauss(0, noise)) for s in range(1, n + 1)}
    return Curve("x", "log", losses, {})


def checks(a: Curve, b: Curve) -> tuple[str, dict[str, dict[str, Any]]]:
    body = compare(a, b, "pretrain")
    return body["verdict"], {c["name"]: c for c in body["checks"]}


def test_few_steps_say_how_many_are_needed() -> None:
    verdict, found = checks(series(15), series(15, 1.0001))
    assert verdict == "INCONCLUSIVE"
    assert "15 steps are too few for an interval: 100 are needed" in found["drift"]["detail"]
    assert "x has none" in found["gradient norm"]["detail"]


def test_equal_files_are_no_pass() -> None:
    verdict, found = checks(series(400), series(400))
    assert (verdict, found["drift"]["outcome"]) == ("INCONCLUSIVE", "ok")
    assert "cannot be shown to be equal" in found["inputs"]["detail"]


def test_a_large_difference_is_no_fault_but_is_said() -> None:
    verdict, found = checks(series(400, 1.01), series(400))
    assert verdict == "INCONCLUSIVE"
    assert found["drift"]["detail"].endswith("a fault, or other inputs")
    assert found["drift"]["value"] == pytest.approx(0.01, rel=0.05)


def test_noise_says_how_many_steps_would_do() -> None:
    _, found = checks(series(200, 1.0001, 0.01), series(200, noise=0.01))
    assert "would be needed, 200 are here" in found["drift"]["detail"]


def test_other_lengths_are_said() -> None:
    _, found = checks(series(14), series(15))
    assert "14 and 15 steps, 14 in common" in found["steps"]["detail"]


@pytest.mark.parametrize("loss", [0.0, float("nan"), float("inf")])
def test_a_loss_that_breaks_down(loss: float) -> None:
    bad = series(20)
    bad.loss[7] = loss
    assert checks(bad, series(20))[0] == "FAIL"
    verdict, found = checks(series(20), bad)
    assert verdict == "INCONCLUSIVE"
    assert "no reference" in found["finite (reference)"]["detail"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text(LOG)
    (tmp_path / "b").write_text(FILES["lists"])
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(words) == 3
    assert "verdict: INCONCLUSIVE" in capsys.readouterr().out
    (tmp_path / "a").write_text(LOG.replace("7.000000E+00", "nan"))
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "FAIL"
