"""Documents: tables in Markdown and HTML, Chinese and English, and what they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrices.importers.compare import differences
from matrices.importers.documents import Draft, read_document
from matrices.importers.tables import read_tables
from tests.resolver.synthetic import matrix_of

if TYPE_CHECKING:
    from pathlib import Path

CHINESE = """# 版本

**表 1**  软件版本配套表

| MindSpeed LLM版本 | MindSpeed Core代码分支名称 | Megatron版本 \
| PyTorch版本 | TorchNPU版本 | CANN版本 | Python版本 |
| --- | --- | --- | --- | --- | --- | --- |
| master（在研版本）| master（在研版本） | core_v0.12.1 | 2.7.1 | 在研版本 | 在研版本 | Python3.10 |
| 27.0.0（商用） | 27.0.0_core_r0.12.1 | core_v0.12.1 | 2.7.1 | 27.0.0 | 10.0.0 | Python3.10 |

**表 2**  与CANN版本兼容

<table>
  <thead>
    <tr><th rowspan="2">MindSpeed LLM</th><th colspan="2">CANN版本</th></tr>
    <tr><th>9.1.X</th><th>10.0.X</th></tr>
  </thead>
  <tbody>
    <tr><td>26.1.0</td><td>Y</td><td>/</td></tr>
    <tr><td>27.0.0</td><td>Y</td><td>Y</td></tr>
  </tbody>
</table>
"""
ENGLISH = """**Table 1** compatibility matrix

| MindSpeed LLM version | MindSpeed Core code branch name | TorchNPU version | CANN version |
| -- | -- | -- | -- |
| master (under development) | master (under development) | In development | In development |
| 27.0.0 (commercial) | 27.0.0_core_r0.12.1 | 27.0.0 | CANN 10.0.0 |

## Version Compatibility

| MindSpeed LLM version | CANN version | TorchNPU version |
| -- | -- | -- |
| 27.0.0 | CANN 10.0.0<br>CANN 9.1.0<br> | 27.0.0 |
"""


def parts(drafts: list[Draft]) -> list[tuple[str, str, dict[str, str]]]:
    return [(draft.kind, draft.state, draft.components) for draft in drafts]


def test_chinese_release_notes() -> None:
    assert parts(read_document(CHINESE)) == [
        (
            "reference", "upcoming",
            {"mindspeed_llm": "master", "mindspeed_core": "master", "megatron": "core_v0.12.1",
             "torch": "2.7.1", "python": "3.10"},
        ),
        (
            "reference", "current",
            {"mindspeed_llm": "27.0.0", "mindspeed_core": "27.0.0_core_r0.12.1",
             "megatron": "core_v0.12.1", "torch": "2.7.1", "torch_npu_product": "27.0.0",
             "cann": "10.0.0", "python": "3.10"},
        ),
        ("compatible", "current", {"mindspeed_llm": "26.1.0", "cann": "9.1.X"}),
        ("incompatible", "current", {"mindspeed_llm": "26.1.0", "cann": "10.0.X"}),
        ("compatible", "current", {"mindspeed_llm": "27.0.0", "cann": "9.1.X"}),
        ("compatible", "current", {"mindspeed_llm": "27.0.0", "cann": "10.0.X"}),
    ]  # fmt: skip


def test_english_release_notes() -> None:
    assert parts(read_document(ENGLISH)) == [
        ("reference", "upcoming", {"mindspeed_llm": "master", "mindspeed_core": "master"}),
        (
            "reference", "current",
            {"mindspeed_llm": "27.0.0", "mindspeed_core": "27.0.0_core_r0.12.1",
             "torch_npu_product": "27.0.0", "cann": "10.0.0"},
        ),
        (
            "compatible", "current",
            {"mindspeed_llm": "27.0.0", "cann": "10.0.0|9.1.0", "torch_npu_product": "27.0.0"},
        ),
    ]  # fmt: skip


def test_torch_npu_tables() -> None:
    text = """| 组件 | 推荐版本 |
|:--:|:--:|
| TorchNPU | 2.14.0（安装包版本） |
| PyTorch | 2.14.0 |
| CANN | 10.0.0 |
| Python | 3.10 / 3.11 |

| TorchNPU安装包版本 | GitCode分支 | PyTorch版本 | CANN版本 |
|---|---|---|---|
| 2.14.0 | v2.14.0-27.0.0 | 2.14.0 | CANN 10.0.0 |

| PyTorch版本 | Python版本 |
|---|---|
| PyTorch 2.14.0 | Python3.10, Python 3.11、Python3.12.*x* |
"""
    assert parts(read_document(text)) == [
        (
            "reference", "current",
            {"torch_npu": "2.14.0", "torch": "2.14.0", "cann": "10.0.0", "python": "3.10|3.11"},
        ),
        (
            "reference", "current",
            {"torch_npu": "2.14.0", "torch_npu_branch": "v2.14.0-27.0.0", "torch": "2.14.0",
             "cann": "10.0.0"},
        ),
        ("compatible", "current", {"torch": "2.14.0", "python": "3.10|3.11|3.12"}),
    ]  # fmt: skip


def test_framework_tables() -> None:
    text = """| vLLM Ascend | vLLM | Python | Stable CANN | PyTorch/torch_npu | Triton Ascend |
|--|--|--|--|--|--|
| v0.99.0 | v0.99.0/v0.99.1 | >= 3.10, < 3.13 | 10.0.0 | 2.14.0 / 2.14.0.post1 | N/A |

| Triton-Ascend Version| CANN Community Version| Release Date|
|--|--|--|
| 3.9.0rc4 | CANN 10.0.0<br>CANN 9.1.0.alpha001 | 2027/01/20 |
"""
    assert parts(read_document(text)) == [
        (
            "reference", "current",
            {"vllm_ascend": "v0.99.0", "vllm": "v0.99.0|v0.99.1", "python": ">=3.10,<3.13",
             "cann": "10.0.0", "torch": "2.14.0", "torch_npu": "2.14.0.post1",
             "triton_ascend": "none"},
        ),
        ("reference", "current", {"triton_ascend": "3.9.0rc4", "cann": "10.0.0|9.1.0.alpha001"}),
    ]  # fmt: skip


def test_tables_without_versions_say_nothing() -> None:
    text = (
        "| 组件 | 描述 |\n|--|--|\n| MindSpeed LLM | 新增特性 |\n\n| a | b |\n|--|--|\n| 1 | 2 |\n"
    )
    assert read_document(text) == []
    assert [table.header for table in read_tables(text)] == [("组件", "描述"), ("a", "b")]


def test_spans_and_titles() -> None:
    table = read_tables(CHINESE)[1]
    assert table.header == ("MindSpeed LLM", "CANN版本\n9.1.X", "CANN版本\n10.0.X")
    assert table.title == "表 2  与CANN版本兼容".replace("  ", " ")
    assert table.rows[0] == ("26.1.0", "Y", "/")


def test_new_changed_and_dropped(tmp_path: Path) -> None:
    document = {"path": "docs/zh/release_notes_llm.md"}
    matrix = matrix_of(
        tmp_path,
        {
            "id": "mindspeed_llm-1",
            "components": "mindspeed_llm=27.0.0 mindspeed_core=27.0.0_core_r0.12.1 "
            "megatron=core_v0.12.1 torch=2.7.1 torch_npu_product=27.0.0 cann=9.9.0 python=3.10",
            **document,
        },
        {
            "id": "mindspeed_llm-2",
            "components": "mindspeed_llm=25.0.0 torch=2.7.1 cann=8.9.0 python=3.10",
            **document,
        },
        {
            "id": "mindspeed_llm-3",
            "kind": "compatible",
            "components": "mindspeed_llm=26.1.0 cann=10.0.X",
            **document,
        },
        {
            "id": "mindspeed_llm-4",
            "components": "mindspeed_llm=24.0.0 torch=2.7.1 cann=8.9.0 python=3.10",
            "path": "another.md",
        },
    )
    found = differences(read_document(CHINESE), matrix, "release_notes_llm.md")
    kinds = [(difference.kind, difference.claim) for difference in found]
    assert ("changed", "mindspeed_llm-1") in kinds
    assert ("changed", "mindspeed_llm-3") in kinds
    assert kinds.count(("new", "")) == 4
    assert [name for kind, name in kinds if kind == "dropped"] == ["mindspeed_llm-2"]
    by_claim = {difference.claim: difference for difference in found}
    assert by_claim["mindspeed_llm-1"].fields == {"cann": ("9.9.0", "10.0.0")}
    assert by_claim["mindspeed_llm-3"].fields == {"kind": ("compatible", "incompatible")}


def test_an_unchanged_document_changes_nothing(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"mindspeed_llm-{number}",
            "kind": draft.kind,
            "state": draft.state,
            "components": " ".join(f"{k}={v}" for k, v in draft.components.items()),
            "path": "release_notes_llm.md",
        }
        for number, draft in enumerate(read_document(CHINESE))
    ]
    matrix = matrix_of(tmp_path, *rows)
    assert differences(read_document(CHINESE), matrix, "release_notes_llm.md") == []


@pytest.mark.parametrize(
    "text",
    [
        "<table><tr><td>",
        "<table></table>",
        "| CANN | PyTorch |\n|--|",
        "|\n|-|\n|",
        "<table><tr><th rowspan='999999'>CANN</th></tr></table>",
        "| CANN | PyTorch |\n|--|--|\n| \\| | |",
    ],
)
def test_broken_tables_are_read_or_left(text: str) -> None:
    assert read_document(text) == []


@settings(max_examples=80, deadline=None)
@given(
    text=st.text(
        st.sampled_from(list("|-<>/ \n0123456789.XYtdrhable=\"'CANN版本PyTorch")), max_size=400
    )
)
def test_any_text_is_read(text: str) -> None:
    for draft in read_document(text):
        assert draft.components


def test_columns_of_dates_and_links_state_no_version() -> None:
    text = (
        "| Triton-Ascend Version | CANN Community Version | CANN Release Date | CANN下载链接 |\n"
        "|---|---|---|---|\n| 9.9.0 | CANN 10.0.0<br>CANN 9.9.RC1 | 2026-01-16 | 1.0.0 |\n"
    )
    assert parts(read_document(text)) == [
        ("reference", "current", {"triton_ascend": "9.9.0", "cann": "10.0.0|9.9.RC1"})
    ]


def test_tables_of_images_offer_and_pair_nothing(tmp_path: Path) -> None:
    text = (
        "| Image Tag | CANN | TorchNPU | Python |\n|---|---|---|---|\n"
        "| `10.0.0-a3-ubuntu99.04-py3.11` | `10.0.0` | `2.7.1` | `3.11` |\n"
    )
    drafts = read_document(text)
    image = {"image": "10.0.0-a3-ubuntu99.04-py3.11", "cann": "10.0.0", "torch_npu": "2.7.1",
             "python": "3.11"}  # fmt: skip
    assert parts(drafts) == [("availability", "current", image)]
    known = "cann=10.0.0 python=3.11 image=10.0.0-a3-ubuntu99.04-py3.11"
    row = {"id": "cann_images-1", "kind": "availability", "components": known}
    matrix = matrix_of(tmp_path / "m", row)
    assert differences(drafts, matrix) == []


def test_cells_of_prose_are_no_versions() -> None:
    text = "| PyTorch编译器 | TorchNPU |\n|---|---|\n| gcc | 毕昇 |\n"
    assert read_document(text) == []


def test_requirements_listed_with_a_remark() -> None:
    text = """    | Software | Supported version | Note |
    |----|----|----|
    | Ascend HDK | Refer to the documentation CANN 10.0.0 | for CANN |
    | CANN | == 10.0.0 | needed by TorchNPU |
    | TorchNPU | == 2.14.0.post4 | auto |
    | torch | == 2.14.0 | auto |
"""
    wanted = {"cann": "10.0.0", "torch_npu": "2.14.0.post4", "torch": "2.14.0"}
    assert parts(read_document(text)) == [("reference", "current", wanted)]


def test_torchnpu_columns_hold_the_wheel_or_the_product() -> None:
    text = "| TorchNPU | CANN |\n|---|---|\n| 2.14.0.post1 | 10.0.0 |\n| 27.0.0 | 10.0.0 |\n"
    keys = [set(draft.components) for draft in read_document(text)]
    assert keys == [{"torch_npu", "cann"}, {"torch_npu_product", "cann"}]
