"""Pasted text of every format, own samples: what is read, what is left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.environment.report import FORMATS, read_report
from tests.environment.test_npu_smi import A2, A3

if TYPE_CHECKING:
    from pathlib import Path

    from certify.environment.stack import Stack


def seen(stack: Stack) -> dict[str, str]:
    return {name: found[0].version for name, found in stack.components.items()}


_THREE = {"torch": "2.9.1", "torch_npu": "2.9.0", "cann": "8.5.0"}
COMPONENT_TABLES = {
    "rows alone": "|torch|2.9.1|\n|torch_npu|2.9.0|\n|CANN|8.5.0|",
    "English header": (
        "| Package | Version |\n|---|---|\n| torch | 2.9.1 |\n| torch_npu | 2.9.0 |\n"
        "| CANN | 8.5.0 |"
    ),
    "Chinese header": (
        "| 组件 | 版本 |\n|:--|--:|\n| PyTorch | 2.9.1 |\n| torch_npu | 2.9.0 |\n"
        "| CANN版本 | 8.5.0 |"
    ),
    "no outer pipes": (
        "Package | Version\n--- | ---\ntorch | 2.9.1\ntorch-npu | 2.9.0\ncann | 8.5.0"
    ),
    "transposed": ("| torch | torch_npu | CANN |\n|---|---|---|\n| 2.9.1 | 2.9.0 | 8.5.0 |"),
    "box": "│ torch │ 2.9.1 │\n│ torch_npu │ 2.9.0 │\n│ CANN │ 8.5.0 │",
    "marked": "| `torch` | **2.9.1** |\n| [torch_npu](http://h/x) | v2.9.0 |\n| CANN | 8.5.0 |",
    "numbered, with remarks": (
        "| 序号 | 组件 | 版本 | 备注 |\n|-|-|-|-|\n| 1 | torch | 2.9.1 | 自装 |\n"
        "| 2 | torch_npu | 2.9.0 | - |\n| 3 | CANN | 8.5.0 | |"
    ),
    "required beside installed": (
        "| Package | Required | Installed |\n|---|---|---|\n| torch | 2.6.0 | 2.9.1 |\n"
        "| torch_npu | 2.6.0 | 2.9.0 |\n| CANN | 8.1.RC1 | 8.5.0 |"
    ),
    "pairs in a row": "| torch | 2.9.1 | torch_npu | 2.9.0 |\n| CANN | 8.5.0 | Python | 3.11 |",
    "tabs": "组件\t版本\ntorch\t2.9.1\ntorch_npu\t2.9.0\nCANN\t8.5.0",
    "commas": "component,version\ntorch,2.9.1\ntorch_npu,2.9.0\nCANN,8.5.0",
    "broken cells": "| torch<br>2.9.1 | torch_npu<br />2.9.0 | CANN<br/>8.5.0 |",
    "breaks beside": (
        "| 组件 | 版本 |\n|--|--|\n| torch | 2.9.1<br> |\n| torch_npu<br>(wheel) | 2.9.0 |\n"
        "| CANN | 8.5.0 |"
    ),
    "HTML in one line": (
        "<table><thead><tr><th>Package</th><th>Version</th></tr></thead><tbody><tr><td>torch</td>"
        "<td>2.9.1</td></tr><tr><td>torch_npu</td><td>2.9.0</td></tr><tr><td>CANN</td>"
        "<td>8.5.0</td></tr></tbody></table>"
    ),
    "HTML over lines": (
        "<table>\n<tr>\n<td>torch</td>\n<td>2.9.1</td>\n</tr>\n<tr><td>torch_npu<br></td>"
        "<td><code>2.9.0</code></td></tr>\n<tr><td>CANN</td><td>8.5.0</td></tr>\n</table>"
    ),
    "HTML columns": (
        "<table><tr><th>torch</th><th>torch_npu</th><th>CANN</th></tr>"
        "<tr><td>2.9.1</td><td>2.9.0</td><td>8.5.0</td></tr></table>"
    ),
}
NO_INSTALLATION = {
    "required": "| 组件 | 推荐版本 |\n|--|--|\n| torch | 2.9.1 |\n| CANN | 8.5.0 |",
    "under a heading": "Supported versions:\n\n| Package | Version |\n| torch | 2.9.1 |",
    "a compatibility table": (
        "| torch | torch_npu | CANN |\n|-|-|-|\n| 2.9.1 | 2.9.0 | 8.5.0 |\n"
        "| 2.7.1 | 2.7.1 | 8.3.RC1 |"
    ),
    "one row with ranges": (
        "| vLLM Ascend | Python | CANN | torch |\n|-|-|-|-|\n"
        "| v0.99.0 | >= 3.9, < 3.12 | 8.5.0 | 2.9.0 |"
    ),
    "one row with a wildcard": "| torch | CANN |\n|-|-|\n| 2.9.0 | 8.5.X |",
    "one row of several interpreters": (
        "| PyTorch版本 | CANN版本 | Python版本 |\n|-|-|-|\n| 2.9.0 | 8.5.0 | 3.10, 3.11 |"
    ),
    "one row with branches": (
        "| CANN | torch | torch_npu代码分支 |\n|-|-|-|\n| 8.5.0 | 2.9.0 | v2.9.0 |"
    ),
    "one row that a document is quoted for": (
        "According to the readme:\n\n| torch | CANN |\n|-|-|\n| 2.9.0 | 8.5.0 |"
    ),
    "a row under its caption": "表 1 版本配套表\n\n| torch | CANN |\n|-|-|\n| 2.9.0 | 8.5.0 |",
    "an HTML row of alternatives": (
        "<table><tr><th>torch</th><th>CANN</th></tr><tr><td>2.9.0</td>"
        "<td>CANN 8.5.0<br>8.3.X</td></tr></table>"
    ),
    "two machines": "| Package | one | two |\n| torch | 2.9.1 | 2.7.1 |",
}


@pytest.mark.parametrize("name", COMPONENT_TABLES)
def test_component_tables_are_read_in_every_form(name: str) -> None:
    found = seen(read_report(COMPONENT_TABLES[name]))
    assert {key: found.get(key) for key in _THREE} == _THREE


@pytest.mark.parametrize("name", NO_INSTALLATION)
def test_tables_of_what_would_be_needed_are_no_installation(name: str) -> None:
    found = seen(read_report(NO_INSTALLATION[name]))
    assert not {"torch", "cann"} & set(found)


def test_one_row_of_exact_versions_is_this_machine() -> None:
    found = seen(read_report(
        "| driver | CANN | torch | torch_npu | python |\n|-|-|-|-|-|\n"
        "| 25.5.0 | 8.5.0 | 2.9.0+cpu | 2.9.0 | 3.11.10 |"
    ))  # fmt: skip
    assert found["driver"] == "25.5.0"
    assert (found["cann"], found["torch"], found["python"]) == ("8.5.0", "2.9.0+cpu", "3.11.10")


def test_a_quoted_row_is_kept_as_a_statement() -> None:
    stack = read_report("| torch | CANN |\n|-|-|\n| 2.9.0 | 8.5.X |")
    assert {s.data["component"] for s in stack.signals} == {"torch", "cann"}
    assert stack.sections[0].state == "partial"


SENTENCES = {
    "CANN version is 9.1": ("cann", "9.1"),
    "The CANN is 9.1.0": ("cann", "9.1.0"),
    "we use CANN of version 8.5.0": ("cann", "8.5.0"),
    "CANN的版本为8.2.RC1": ("cann", "8.2.RC1"),
    "CANN 的版本号是：8.2.RC1": ("cann", "8.2.RC1"),
    "我的CANN目前是8.1.RC1版本": ("cann", "8.1.RC1"),
    "CANN==9.0": ("cann", "9.0"),
    "CANN was upgraded to 9.0.0": ("cann", "9.0.0"),
    "CANN升级到了9.0.0": ("cann", "9.0.0"),
    "昇腾驱动的版本是25.2.0": ("driver", "25.2.0"),
    "the torch version I have installed is 2.7.1": ("torch", "2.7.1"),
    "Python is 3.10": ("python", "3.10"),
    "MindSpeed的分支是2.3.0_core_r0.12.1": ("mindspeed_core", "2.3.0_core_r0.12.1"),
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_with_verbs_and_particles(text: str) -> None:
    component, version = SENTENCES[text]
    assert seen(read_report(text)).get(component) == version


@pytest.mark.parametrize(
    "text",
    [
        "torch is 2.5 times slower", "torch is 1.5x slower", "CANN is not 9.0.0",
        "CANN version should be 9.1", "CANN 需要升级到 9.1.0", "CANN 9.1.0 is supported by it",
        "the driver is 8.5 GB large",
    ],
)  # fmt: skip
def test_sentences_that_state_no_installation(text: str) -> None:
    assert not {"cann", "torch", "driver"} & set(seen(read_report(text)))


def test_a_table_of_components_also_names_system_and_machine() -> None:
    found = seen(read_report(
        "| 项目 | 版本 |\n|--|--|\n| 操作系统 | openEuler 22.03 |\n| 硬件 | Atlas 800T A2 |\n"
        "| 架构 | aarch64 |\n| 驱动 | 25.5.0 |\n| npu-smi | 25.5.0 |"
    ))  # fmt: skip
    assert (found["product"], found["arch"], found["driver"]) == ("A2", "aarch64", "25.5.0")
    assert found["os"] == "openeuler 22.03"


TABLE: dict[str, tuple[str, dict[str, str]]] = {
    "install info": (
        "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\ninnerversion=V100R001C23SPC001B224\n"
        "compatible_version=[V100R001C15]\narch=x86_64\nos=linux\n",
        {"cann": "8.3.RC1", "arch": "x86_64"},
    ),
    "nnae info": ("package_name=Ascend-cann-nnae\nversion=8.0.RC3\n", {"cann": "8.0.RC3"}),
    "ops info": ("package_name=Ascend-cann-910b-ops\nversion=9.0.0\n", {"cann_ops": "9.0.0"}),
    "version.cfg": (
        "# version: 1.0\ntoolkit_running_version=[7.3.0.1.231:8.0.RC2]\n"
        "opp_kernel_running_version=[7.3.0.1.231:8.0.RC2]\n",
        {"cann": "8.0.RC2", "cann_ops": "8.0.RC2"},
    ),
    "driver info": (
        "Version=25.2.0\nascendhal_version=7.35.23\ncompatible_version_fw=[7.0.0,7.7.99]\n",
        {"driver": "25.2.0"},
    ),
    "firmware info": (
        "Version=7.7.0.6.236\nfirmware_version=1.0\npackage_version=25.2.0\n",
        {"firmware": "7.7.0.6.236"},
    ),
    "component info": ("Version=8.2.0.0.201\nversion_dir=8.2.RC1\n", {"cann": "8.2.RC1"}),
    "nnal info": (
        "    Ascend-cann-atb : 8.2.RC1\n    Ascend-cann-atb Version : 8.2.RC1.B150\n",
        {"nnal": "8.2.RC1"},
    ),
    "os-release": ('ID="openEuler"\nVERSION_ID="24.03"\n', {"os": "openEuler 24.03"}),
    "collect_env": (
        "PyTorch version: 2.8.0+cpu\nOS: Ubuntu 22.04.5 LTS (aarch64)\nLibc version: glibc-2.35\n"
        "Python version: 3.11.9 (main, Jan 1 2026) [GCC 11] (64-bit runtime)\n"
        "[pip3] torch_npu==2.8.0.post2\n[pip3] numpy==1.26.4\nvLLM Ascend Version: 0.13.0\n",
        {
            "torch": "2.8.0+cpu", "os": "Ubuntu 22.04.5 LTS", "arch": "aarch64", "glibc": "2.35",
            "python": "3.11.9", "torch_npu": "2.8.0.post2", "numpy": "1.26.4",
            "vllm_ascend": "0.13.0",
        },
    ),
    "llamafactory env": (
        "- `llamafactory` version: 0.9.4\n- Platform: "
        "Linux-5.10.0-1.aarch64-aarch64-with-glibc2.34\n"
        "- Python version: 3.11.4\n- PyTorch version: 2.5.1 (NPU)\n- NPU type: Ascend910B4\n"
        "- CANN version: 8.1.RC1\n",
        {
            "llamafactory": "0.9.4", "arch": "aarch64", "glibc": "2.34", "python": "3.11.4",
            "torch": "2.5.1", "product": "A2", "cann": "8.1.RC1",
        },
    ),
    "verl diagnose": (
        "----------Python Info----------\nVersion      : 3.10.12\n"
        "------------Pip Info-----------\nvllm         : 0.11.0+empty\ntorch        : 2.7.1\n"
        "----------verl Info-----------\nVersion      : 0.6.1\n",
        {"python": "3.10.12", "vllm": "0.11.0+empty", "torch": "2.7.1", "verl": "0.6.1"},
    ),
    "sglang": (
        "NPU available: True\nNPU 0,1: Ascend910_9362\nCANN_HOME: /usr/local/Ascend/cann-8.5.0\n"
        "PyTorch: 2.8.0+cpu\nsglang: 0.5.6\n",
        {"product": "A3", "cann": "8.5.0", "torch": "2.8.0+cpu", "sglang": "0.5.6"},
    ),
    "pip list": (
        "Package       Version        Editable project location\n------------- ------- -----\n"
        "torch         2.7.1+cpu\ntorch_npu     2.7.1.post2\nvllm          0.9.1+empty  "
        "/srv/vllm\n",
        {"torch": "2.7.1+cpu", "torch_npu": "2.7.1.post2", "vllm": "0.9.1+empty"},
    ),
    "one row of a list": ("torch-npu                 2.6.0\n", {"torch_npu": "2.6.0"}),
    "pip freeze": (
        "torch==2.6.0\ntorch-npu==2.6.0.post3\n"
        "mindspeed @ git+https://example.org/MindSpeed.git@2.2.0_core_r0.12.1\n",
        {"torch": "2.6.0", "torch_npu": "2.6.0.post3", "mindspeed_core": "2.2.0_core_r0.12.1"},
    ),
    "pip show": ("Name: torch-npu\nVersion: 2.6.0\nLocation: /x\n", {"torch_npu": "2.6.0"}),
    "conda list": ("torch     2.1.0    pypi_0    pypi\n", {"torch": "2.1.0"}),
    "install message": (
        "Successfully installed numpy-1.26.4 torch-npu-2.7.1 triton_ascend-3.2.0\n",
        {"numpy": "1.26.4", "torch_npu": "2.7.1", "triton_ascend": "3.2.0"},
    ),
    "wheel": (
        "pip install torch_npu-2.6.0-cp311-cp311-manylinux_2_28_aarch64.whl\n",
        {"torch_npu": "2.6.0", "python": "3.11", "arch": "aarch64"},
    ),
    "run files": (
        "Ascend-cann-toolkit_8.2.RC1_linux-aarch64.run\n"
        "Ascend-cann-kernels-910b_8.2.RC1_linux-aarch64.run\n"
        "Ascend-hdk-910b-npu-driver_25.2.0_linux-aarch64.run\n",
        {"cann": "8.2.RC1", "cann_ops": "8.2.RC1", "driver": "25.2.0", "arch": "aarch64"},
    ),
    "image": (
        "docker pull quay.io/ascend/cann:8.3.rc2-910b-openeuler24.03-py3.11\n",
        {"cann": "8.3.rc2", "image_product": "A2", "os": "openeuler 24.03", "python": "3.11"},
    ),
    "framework image": (
        "image: quay.io/ascend/vllm-ascend:v0.13.0-a3-openeuler\n",
        {"vllm_ascend": "0.13.0", "image_product": "A3"},
    ),
    "exports": (
        "export ASCEND_HOME_PATH=/usr/local/Ascend/cann-9.0.0\n"
        "export ATB_HOME_PATH=/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_0\n",
        {"cann": "9.0.0", "atb_abi": "0"},
    ),
    "links": ("lrwxrwxrwx 1 root root 17 toolkit -> ../8.2.RC1/toolkit\n", {"cann": "8.2.RC1"}),
    "free text": ("cann8.3rc1, torch-npu-2.10.post4 on Atlas 800T A2\n",
                  {"cann": "8.3rc1", "torch_npu": "2.10.0.post4", "product": "A2"}),
    "Chinese free text": (
        "昇腾910B3，CANN：8.0.RC2.2，驱动：24.1.rc3\ntorch版本是2.1.0\n",
        {"product": "A2", "cann": "8.0.RC2.2", "driver": "24.1.rc3", "torch": "2.1.0"},
    ),
    "markdown": ("| Machine | Ascend 910B4 x8, npu-smi 25.2.0, CANN 8.2.RC1 |\n",
                 {"product": "A2", "driver": "25.2.0", "cann": "8.2.RC1"}),
    "branches": ("MindSpeed-LLM: 26.0.0\nMindSpeed: 26.0.0_core_r0.12.1\n"
                 "Megatron-LM core_v0.12.1\n",
                 {"mindspeed_llm": "26.0.0", "mindspeed_core": "26.0.0_core_r0.12.1",
                  "megatron": "core_v0.12.1"}),
    "a driver that is no driver": ("驱动版本 7.0.RC1\n", {"cann": "7.0.RC1"}),
    "moved": ("npu: 310P (environment copied from 910B2)\n", {"product": "310P"}),
    "moved, Chinese": ("将910b2上的环境迁移到310p后\n", {"product": "310P"}),
    "board": (
        "NPU ID                         : 0\nSoftware Version               : 25.3.rc1\n"
        "Firmware Version               : 7.8.0.2.212\n",
        {"driver": "25.3.rc1", "firmware": "7.8.0.2.212"},
    ),
    "complaint of pip": (
        "torch-npu 2.5.1 requires torch==2.5.1, but you have torch 2.6.0 which is incompatible.\n",
        {"torch_npu": "2.5.1", "torch": "2.6.0"},
    ),
    "python banner": ("Python 3.9.18 (main, Sep 11) [GCC 11] on linux\n", {"python": "3.9.18"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_formats(name: str) -> None:
    text, expected = TABLE[name]
    found = seen(read_report(text))
    assert {key: found.get(key) for key in expected} == expected


NO_SIGHTING = {
    "a requirement": "vllm-ascend needs CANN 8.5.0 and requires torch==2.8.0",
    "a dependency": "- vllm==0.8.5 depends on torch==2.6.0",
    "a request": "The user requested torch==2.9.0",
    "advice": "建议升级到 CANN 8.5.0",
    "a document": "CANN 9.0.0 (doc)",
    "a link": "see https://example.org/torch-2.7.1/index.html",
    "a removal": "Successfully uninstalled triton-3.6.0",
    "a log line": "INFO 05-30 14:36:49 [x.py:17] torch 9.9.9",
    "a port": "torch server on port 8080.1",
}


@pytest.mark.parametrize("name", NO_SIGHTING)
def test_what_is_not_installed_is_no_sighting(name: str) -> None:
    found = seen(read_report(NO_SIGHTING[name]))
    assert not {"torch", "cann", "triton", "vllm"} & set(found), found


def test_sections_say_what_was_read_and_where() -> None:
    stack = read_report("hello\n" + A2 + "\npackage_name=Ascend-cann-toolkit\nversion=8.5.0\n")
    kinds = [(s.kind, s.state, s.lines[0]) for s in stack.sections]
    assert kinds == [("npu-smi info", "read", 2), ("CANN or driver version file", "read", 19)]
    assert len(stack.devices) == 2


def test_a_table_that_cannot_be_read_is_unparsed() -> None:
    stack = read_report("| npu-smi 25.2.0     Version: 25.2.0   |\n| garbage | Health | more |\n")
    assert [s.state for s in stack.sections] == ["partial"]
    assert stack.devices == ()
    assert seen(stack)["driver"] == "25.2.0"


def test_a_markdown_table_is_no_npu_table() -> None:
    assert read_report("| a | b |\n|---|---|\n| 1 | 2 |\n").sections == ()


def test_an_empty_cann_field_is_unknown() -> None:
    stack = read_report("NPU:\n" + A3 + "\nCANN:\n\n")
    assert {s.id for s in stack.signals} == {"cann-field-empty"}
    assert "cann" not in stack.components


def test_ansi_wide_punctuation_and_windows_lines() -> None:
    text = "\x1b[31mCANN：8.5.0\x1b[0m\r\n\ufefftorch\u3000:\u30002.9.0\r\n"
    assert seen(read_report(text)) == {"cann": "8.5.0", "torch": "2.9.0"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_encodings(encoding: str) -> None:
    assert seen(read_report("驱动：25.2.0，CANN：8.5.0".encode(encoding)))["cann"] == "8.5.0"


def test_binary_is_said_to_be_none() -> None:
    stack = read_report(bytes(range(256)) * 40)
    assert [(s.kind, s.state) for s in stack.sections] == [("binary", "unparsed")]


def test_two_sightings_are_both_kept_the_trusted_one_first() -> None:
    stack = read_report("image: quay.io/ascend/cann:9.0.0-910b-ubuntu22.04-py3.11\nCANN 8.5.1\n")
    assert [f.version for f in stack.components["cann"]] == ["8.5.1", "9.0.0"]
    assert [f.confidence for f in stack.components["cann"]] == ["stated", "inferred"]


def test_permissions_are_judged_across_lines() -> None:
    nodes = "crw-rw---- 1 1000 1000 236, 0 Jan 1 10:00 /dev/davinci0\n"
    closed = {
        s.id for s in read_report(nodes + "uid=1001(dev) gid=1001(dev) groups=1001(dev)\n").signals
    }
    member = read_report(nodes + "uid=1001(dev) gid=1001(dev) groups=1001(dev),1000(npu)\n").signals
    root = read_report(nodes + "uid=0(root) gid=0(root)\nCapEff: 000001ffffffffff\n").signals
    bare = {
        s.id
        for s in read_report(nodes + "uid=0(root) gid=0(root)\nCapEff: 0000000000000000\n").signals
    }
    assert closed == bare == {"device-nodes-closed"}
    assert member == root == ()


def test_docker_run_over_several_lines() -> None:
    text = (
        "docker run -it \\\n  --device /dev/davinci0 \\\n  --device /dev/davinci_manager \\\n"
        "  -v /usr/local/Ascend/driver:/usr/local/Ascend/driver \\\n"
        "  quay.io/ascend/vllm-ascend:v0.13.0 bash\n"
    )
    stack = read_report(text)
    lacking = next(s for s in stack.signals if s.id == "devices-not-mounted").data["lacking"]
    assert lacking == "--device /dev/devmm_svm --device /dev/hisi_hdc"
    assert seen(stack)["vllm_ascend"] == "0.13.0"
    assert not read_report(text.replace("-it", "--privileged")).signals


def test_formats_have_names_and_order() -> None:
    assert list(FORMATS)[-2:] == ["pip list", "component columns"]
    assert len(FORMATS) == len(set(FORMATS)) >= 20


def test_public_samples_are_read(shared: Path) -> None:
    expected = {
        "ascend_toolkit_install.info_9.1.0_x86_64": {"cann": "9.1.0"},
        "ascend_nnae_install.info_8.0.RC3": {"cann": "8.0.RC3"},
        "version.cfg_8.2.RC2": {"cann": "8.2.RC2", "cann_ops": "8.2.RC2"},
        "opp_kernel_version.info_8.2.RC1": {"cann_ops": "8.2.RC1"},
        "nnal_atb_version.info_9.1.0": {"nnal": "9.1.0"},
        "driver_version.info_24.1.rc2.2": {"driver": "24.1.rc2.2"},
        "firmware_version.info_7.7.0.1.231": {"firmware": "7.7.0.1.231"},
        "ls_ascend-toolkit_latest_8.2.RC2.txt": {"cann": "8.2.RC2"},
        "ls_Ascend_9.1.0.txt": {"cann": "9.1.0"},
        "lspci_910A_7of8.txt": {"product": "910", "pci_accelerators": "7"},
        "npu-smi_950_board_25.7.rc1.6.txt": {"driver": "25.7.rc1.6", "product": "950"},
        "collect_env_A2_8.5.0.txt": {"cann": "8.5.0", "driver": "25.5.0", "torch_npu": "2.9.0"},
        "env_cann_9.1.0.txt": {"cann": "9.1.0", "atb_abi": "1"},
    }
    for name, wanted in expected.items():
        found = seen(read_report((shared / "facts/samples" / name).read_bytes()))
        assert {key: found.get(key) for key in wanted} == wanted, name


def test_the_tag_of_an_image_is_no_version_of_its_application() -> None:
    stack = read_report("docker pull quay.io/ascend/verl:verl-8.5.0-910b-ubuntu22.04-py3.11-latest")
    found = stack.components
    assert "verl" not in found
    assert (found["cann"][0].version, found["cann"][0].confidence) == ("8.5.0", "inferred")
    assert found["image_product"][0].version == "A2"
    beside = read_report("image quay.io/ascend/verl:verl-8.5.0-a3-py3.11 with verl 0.7.0")
    assert beside.components["verl"][0].version == "0.7.0"


def test_small_files_of_packages_and_of_the_firmware_tool() -> None:
    git = "d99d6cda" + "0" * 32
    own = seen(read_report(f"__version__ = '2.7.1.post4'\ngit_version = '{git}'\n"))
    assert (own["torch_npu"], own["torch_npu_git"]) == ("2.7.1.post4", git)
    torch = seen(read_report(
        "from typing import Optional\n__version__ = '2.7.1+cpu'\ndebug = False\n"
        f"cuda: Optional[str] = None\ngit_version = '{git}'\n"
    ))  # fmt: skip
    assert torch["torch"] == "2.7.1+cpu"
    assert "torch_npu" not in torch
    wheel = seen(read_report("Wheel-Version: 1.0\nTag: cp310-cp310-manylinux_2_28_aarch64\n"))
    assert (wheel["python"], wheel["arch"]) == ("3.10", "aarch64")
    tool = read_report(
        "Get component version(7.5.0.2.220) succeed for deviceId(0), componentType(0).\n"
        '        {"device_id":0, "component":nve, "version":7.5.0.2.220}\n'
    )
    assert [f.version for f in tool.components["firmware"]] == ["7.5.0.2.220"]
    entry = seen(read_report("[torch.backends]\ntorch_npu = torch_npu:_autoload\n"))
    assert entry["torch_npu_present"] == "yes"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd MindSpeed-LLM && git branch\n  master\n* 2.2.0\n", ("mindspeed_llm", "2.2.0")),
        ("cd MindSpeed\ngit branch\n* (HEAD detached at v1.0.0_core_r0.6.0)\n  master\n",
         ("mindspeed_core", "v1.0.0_core_r0.6.0")),
        ("~/MindSpeed-LLM$ git status\nOn branch 2.1.0\nnothing to commit\n",
         ("mindspeed_llm", "2.1.0")),
        ("git -C /w/Megatron-LM rev-parse --abbrev-ref HEAD\ncore_v0.12.1\n",
         ("megatron", "core_v0.12.1")),
        ("cd MindSpeed; git status\n头指针分离于 2.2.0_core_r0.12.1\n",
         ("mindspeed_core", "2.2.0_core_r0.12.1")),
    ],
)  # fmt: skip
def test_git_names_the_branch_in_use(text: str, expected: tuple[str, str]) -> None:
    component, version = expected
    assert seen(read_report(text))[component] == version


@pytest.mark.parametrize(
    "text",
    [
        "cd somewhere && git branch\n* 2.2.0\n",
        "cd MindSpeed-LLM && git branch\n\nlater\n* 2.2.0\n",
        "cd MindSpeed-LLM && cd ../other && ls\ngit branch\n  2.2.0\n",
    ],
)
def test_git_of_another_project_says_nothing(text: str) -> None:
    assert "mindspeed_llm" not in seen(read_report(text))
