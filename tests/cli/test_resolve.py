"""``certify resolve`` as a command: whole output, JSON and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certify.cli import main

ROOT = Path(__file__).resolve().parents[2]
STACK = ("torch=2.7.1", "torch_npu=2.7.1", "cann=9.0.0")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["resolve", *words])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = call(capsys, *words, "--json")
    return code, json.loads(out)


def test_the_smallest_change_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "--have", *STACK, "--product", "A2")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "found: torch=2.7.1 torch_npu=2.7.1 cann=9.0.0",
        "product: A2",
        "",
        "incompatible: torch_npu 2.7.1 with cann 9.0.0 [torch-npu-cann]",
        "  because torch_npu 2.7.1 is product release 7.2.0",
        "  because CANN toolkit 9.0.0 is newer than everything declared for torch_npu 2.7.1 "
        "(newest: 8.3.RC1)",
        "  declared cann: 8.3.RC1, 8.2.RC1, 8.1.RC1, 8.0.0",
        "  declared torch_npu: 2.7.1.post4, 2.10.0, 2.9.0.post2, 2.8.0.post4",
        "",
        "smallest change: 1 (reference)",
        "  torch_npu: 2.7.1 -> 2.7.1.post4  "
        "[Ascend/pytorch COMPATIBILITY.en.md@b48e64812, pairing table (2026-08-20)]",
        "    $ pip install --no-deps torch_npu==2.7.1.post4",
    ]


def test_chinese_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "--have", *STACK, "--lang", "zh")
    assert "对应产品版本 7.2.0" in out


def test_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = document(capsys, "--have", *STACK, "--product", "A2")
    assert code == 0
    assert found["schema"] == "certify.resolve/1"
    assert found["product"] == "A2"
    pair = next(p for p in found["pairs"] if p["rule"] == "torch-npu-cann")
    assert pair["status"] == "incompatible"
    assert pair["expected"]["torch_npu"][0] == "2.7.1.post4"
    assert pair["why"]
    resolution = found["resolution"]
    assert resolution["cost"] == 1
    assert resolution["level"] == "reference"
    assert resolution["commands"] == ["pip install --no-deps torch_npu==2.7.1.post4"]
    assert resolution["changes"][0]["source"].startswith("Ascend/pytorch COMPATIBILITY")
    assert resolution["changes"][0]["stops_jobs"] is False


def test_the_cost_of_an_upgrade(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--have", "torch=2.7.1", "torch_npu=2.7.1", "cann=8.3.RC1", "driver=25.0.rc1.1")
    code, out, _ = call(capsys, *words, "--product", "A2", "--to", "cann=9.1.0")
    assert code == 0
    assert "cost of cann=9.1.0: 1101 (reference)" in out or "cost of cann=9.1.0: 1101" in out
    assert "running jobs on this machine stop" in out
    assert "may stay, tested together: torch 2.7.1" in out
    assert out.index("hdk:") < out.index("cann:", out.index("cost of")) < out.index("torch_npu: 2")


def test_keep_and_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--have", *STACK, "--keep", "torch_npu,cann")
    assert code == 1
    assert "no declared stack can be reached: torch_npu+cann" in out
    code, found = document(capsys, "--have", *STACK, "--keep", "torch_npu", "--keep", "torch")
    assert code == 0
    assert [step["component"] for step in found["resolution"]["changes"]] == ["cann"]


def test_free_spellings_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = document(
        capsys, "--have", "cann=CANN：8.0.RC2.2", "torch-npu=2.10.post4", "driver=24.1 rc3"
    )
    assert code == 0
    assert found["have"]["driver"] == "24.1.rc3"
    assert found["have"]["cann"] == "8.0.RC2.2"


def test_nothing_known_cannot_be_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "--root", str(tmp_path))
    assert code == 3
    assert out.startswith("found: ")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--have", "cann"), "is no KEY=VERSION"),
        (("--have", "can=9.1.0"), "no component 'can'"),
        (("--have", "cann=nine"), "'nine' is no version of CANN toolkit"),
        (("--have", "cann=9.1.0", "--keep", "drivr"), "no component 'drivr'"),
        (("--have", "cann=9.1.0", "--product", "A9"), "no product 'A9'"),
        (("--have", "cann=9.1.0", "--to", "torch=x"), "no version of PyTorch"),
    ],
)
def test_usage_errors(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], what: str
) -> None:
    code, out, err = call(capsys, *words)
    assert code == 2
    assert what in err
    assert out == ""


def test_start_stays_light() -> None:
    code = (
        "import sys\n"
        "from certify.cli import main\n"
        "main(['resolve', '--have', 'cann=9.0.0', 'torch_npu=2.7.1', '--json'])\n"
        "heavy = {'yaml', 'importlib.metadata', 'packaging', 'sqlalchemy', 'jinja2', 'torch',\n"
        "         'numpy', 'subprocess', 'certify.environment.probes'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"
