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


def test_lists_are_split_at_commas(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = document(capsys, "--have", "cann=9.0.0,torch_npu=2.7.1.post4", "torch=2.7.1")
    assert code == 0
    assert found["have"] == {"cann": "9.0.0", "torch_npu": "2.7.1.post4", "torch": "2.7.1"}
    code, found = document(capsys, "--have", "cann=9.0.0", "--to", "cann=9.1.0,torch=2.7.1")
    assert found["target"] == {"cann": "9.1.0", "torch": "2.7.1"}


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("--have", "cann=9.0.0,cann=9.1.0"), 2, "given twice: 9.0.0 and 9.1.0"),
        (("--have", "cann=8.3.RCX"), 2, "no installed version"),
        (("--have", "driver=25.5.1 ,hdk=26.0.RC1"), 2, "one release"),
        (("--have", "product=H100", "cann=9.0.0"), 2, "no product 'H100'"),
        (("--have", "arch=riscv", "cann=9.0.0"), 2, "no architecture 'riscv'"),
        (("--have", "product=A2", "--product", "A3"), 2, "given twice"),
        (("--have", "cann=9.0.0", "--to", "cann=99.0.0"), 3, "no table knows CANN toolkit 99.0.0"),
        (("--have", "cann=9.0.0", "--to", "numpy=3.0"), 3, "no table knows numpy 3.0"),
        (("--have", "cann=9.0.0", "--to", "hdk=29.0.0"), 3, "no table knows"),
        (("--have", "cann=9.0.0", "--to", "driver=29.0.0"), 3, "no table knows"),
        (("--have", "cann=9.0.0", "--to", "cann=8.9.RCX"), 3, "no table knows"),
        (("--have", "cann=9.0.0", "--to", "product=A3"), 2, "hardware"),
        (("--have", "cann=9.0.0", "--to", "glibc=2.31"), 2, "no target"),
        (("--have", "cann=9.0.0", "--to", "firmware=7.8.0.2.212"), 2, "comes with an HDK"),
        (("--have", "cann=9.0.0", "--to", "cann=9.1.0", "--keep", "cann"), 2, "may not be changed"),
        (
            ("--have", "driver=25.2.0", "--to", "hdk=26.0.RC1", "--keep", "firmware"),
            2,
            "may not be changed",
        ),
    ],
)
def test_what_cannot_be_meant_is_said(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, what: str
) -> None:
    found, out, err = call(capsys, *words)
    assert (found, out) == (code, "")
    assert what in err


def test_near_versions_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = call(capsys, "--have", "cann=9.0.0", "--to", "cann=99.0.0")
    assert "9.2.0" in err


def test_a_wildcard_target_becomes_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--have", *STACK, "--product", "A2", "--to", "cann=8.3.RCX")
    code, found = document(capsys, *words)
    assert code == 0
    assert found["target"]["cann"] in ("8.3.RC1", "8.3.RC2")
    assert found["resolution"]["row"]["cann"] == found["target"]["cann"]


@pytest.mark.parametrize("name", ["driver", "firmware", "hdk"])
def test_driver_firmware_and_hdk_are_one_axis(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    _, found = document(capsys, "--have", "cann=9.1.0", f"{name}=25.0.RC1", "--product", "A2")
    assert [p["status"] for p in found["pairs"] if p["rule"] == "cann-driver"] == ["incompatible"]
    words = ("--have", "cann=9.1.0", "driver=25.0.RC1", "--to", f"{name}=26.0.RC1")
    _, found = document(capsys, *words, "--product", "A2")
    assert [step["target"] for step in found["resolution"]["changes"]] == ["26.0.RC1"]


def test_product_and_arch_among_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = document(capsys, "--have", "cann=9.1.0", "product=950,arch=arm64")
    assert (found["product"], found["arch"]) == ("950", "aarch64")
    assert found["have"] == {"cann": "9.1.0"}


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


def test_pips_number_of_mindspeed_is_read_as_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = document(
        capsys, "--have", "mindspeed_core=0.12.1", "mindspeed_llm=26.1.0", "cann=9.1.0"
    )
    (pair,) = [p for p in answer["pairs"] if p["components"] == ["mindspeed_llm", "mindspeed_core"]]
    assert (pair["status"], pair["found"]["mindspeed_core"]) == ("undeclared", "core_r0.12.1")
    targets = {c["component"]: c["target"] for c in answer["resolution"]["changes"]}
    assert targets == {"mindspeed_core": "26.1.0_core_r0.12.1"}
    assert code == 0


def test_of_equal_changes_the_one_that_leaves_nothing_undeclared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, answer = document(
        capsys, "--have", "mindspeed_llm=26.0.0", "transformers=4.50.0", "torch=2.7.1",
        "--product", "A2", "--for", "qwen3-235b", "--backend", "mcore",
    )  # fmt: skip
    (change,) = answer["resolution"]["changes"]
    assert (change["component"], change["target"]) == ("transformers", "4.57.1")
    assert answer["resolution"]["level"] == "compatible"
