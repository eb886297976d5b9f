"""Statements out of the tables of upstream documents.

Understands the release notes of MindSpeed-LLM and MindSpeed Core (Chinese and English), the
compatibility tables of torch_npu, those of Triton-Ascend and vLLM-Ascend: whatever the order of
the columns, a column is recognised by its head.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matrices.importers.tables import Table, read_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

# Head of a column -> component; the first pattern that fits wins.
_COLUMNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    # Columns about a component that hold no version of it.
    (r"\bdate\b|\btime\b|\blink|\bpath\b|download|command|日期|时间|链接|下载|路径|命令|说明", ()),
    (r"(?:image|镜像)\s*(?:tag|标签)|^tag$|^标签$", ("image",)),
    (r"pytorch\s*/\s*torch_npu", ("torch", "torch_npu")),
    (r"vllm[ -]?ascend", ("vllm_ascend",)),
    (r"vllm", ("vllm",)),
    (r"mindspeed[ -]?llm", ("mindspeed_llm",)),
    (r"mindspeed", ("mindspeed_core",)),
    (r"megatron", ("megatron",)),
    (r"triton[- ]?ascend", ("triton_ascend",)),
    (r"^triton", ("triton",)),
    (
        r"torch_?npu.*(分支|branch)|(gitcode|github|gitee|代码)\s*(分支|branch)",
        ("torch_npu_branch",),
    ),
    (r"torch_?npu\s*(安装包|.*package|.*wheel)|extension.*version|扩展.*版本", ("torch_npu",)),
    (r"torch_?npu|ascend extension", ("torch_npu_product",)),
    (r"pytorch|^torch\b", ("torch",)),
    (r"cann", ("cann",)),
    (r"python", ("python",)),
    (r"mooncake", ("mooncake",)),
    (r"hdk", ("hdk",)),
)
_VERSION_IN_HEAD = re.compile(r"(?i)\bv?\d+\.\d+(?:\.[\w]+)*(?:[-_.][\w.]+)*")
_OF_VERSIONS = re.compile(r"(?i)version|版本")
_UNFINISHED = re.compile(r"(?i)在研|under development|in development|主线|\{\{")
_YES = ("y", "√", "✓", "✔", "yes", "支持")
_NO = ("/", "n", "×", "x", "✗", "no", "不支持", "-")
_ABSENT = ("n/a", "na", "-", "", "none", "无")
_PREFIX = re.compile(r"(?i)^(cann|pytorch|torchnpu|torch_npu|mindspeed llm|python)\s*")
# A slash between two versions separates alternatives; one inside a name does not.
_ALTERNATIVES = re.compile(r"\n|、|,|;|\s/\s|(?<=\d)/(?=v?\d)")
# What a cell may hold as a version; prose, compilers and names are none.
_VERSION = re.compile(
    r"(?i)[<>=!~]{0,2}v?\d[\w.*+-]*(?:,[<>=!~]{1,2}v?\d[\w.*+-]*)*|core_[rv]\d[\w.]*|[0-9a-f]{7,40}"
    r"|master|main|none"
)
# TorchNPU as a product counts 5.0.rc1 and on, its wheels follow torch's numbers.
_WHEEL = re.compile(r"[12]\.\d")
_EDITION = re.compile(r"\s*[（(][^（）()]*[）)]")


@dataclass(frozen=True)
class Draft:
    """A statement read from a document. components as in a claim; state: current or upcoming;
    table and line: where it stands."""

    kind: str
    components: dict[str, str]
    state: str
    table: str
    line: int


def read_document(text: str) -> list[Draft]:
    """Every statement about versions in a document, in order, equal ones once."""
    drafts: list[Draft] = []
    for table in read_tables(text):
        for draft in _statements(table):
            if all((draft.kind, draft.components) != (d.kind, d.components) for d in drafts):
                drafts.append(draft)
    return drafts


def _statements(table: Table) -> Iterator[Draft]:
    columns = [_components(head) for head in table.header]
    versions = [_head_version(head) for head in table.header]
    crossed = [i for i in range(1, len(columns)) if columns[i] and versions[i]]
    if columns and columns[0] and len(crossed) == len(columns) - 1 and crossed:
        yield from _cross_table(table, columns, versions)
    elif sum(bool(column) for column in columns) >= 2 and columns[0]:
        yield from _row_table(table, columns)
    elif (
        len(columns) >= 2
        and not any(columns[1:])
        and (len(columns) == 2 or _OF_VERSIONS.search(table.header[1]))
    ):
        yield from _recommended(table)


def _components(head: str) -> tuple[str, ...]:
    text = head.lower().replace("\n", " ")
    for pattern, keys in _COLUMNS:
        if re.search(pattern, text):
            return keys
    return ()


def _head_version(head: str) -> str:
    found = _VERSION_IN_HEAD.search(head.replace("\n", " "))
    return found[0] if found else ""


def _cross_table(
    table: Table, columns: list[tuple[str, ...]], versions: list[str]
) -> Iterator[Draft]:
    """Subject down, versions across, Y or a slash in the cells."""
    subject = columns[0][0]
    for row in table.rows:
        name = _cell(subject, row[0])
        for column in range(1, len(row)):
            cell = row[column].strip().lower()
            kind = "compatible" if cell in _YES else "incompatible" if cell in _NO else ""
            if name and kind and column < len(columns):
                parts = {subject: name, columns[column][0]: versions[column]}
                yield Draft(kind, parts, "current", table.title, table.line)


def _row_table(table: Table, columns: list[tuple[str, ...]]) -> Iterator[Draft]:
    """One combination a row. A list in a CANN cell of a table without torch is a range."""
    for row in table.rows:
        parts: dict[str, str] = {}
        for keys, cell in zip(columns, row, strict=False):
            values = cell.split("/") if len(keys) == 2 else [cell]
            for name, value in zip(keys, values, strict=False):
                text = _cell(name, value)
                key = _wheel_or_product(name, text)
                if text:
                    parts[key] = text
        if len(parts) < 2:
            continue
        unfinished = any(_UNFINISHED.search(cell) for cell in row)
        yield Draft(
            _kind(parts),
            parts,
            "upcoming" if unfinished else "current",
            table.title,
            table.line,
        )


def _wheel_or_product(key: str, text: str) -> str:
    """Columns called TorchNPU hold the one or the other."""
    return "torch_npu" if key == "torch_npu_product" and _WHEEL.match(text) else key


def _kind(parts: dict[str, str]) -> str:
    if "image" in parts:
        return "availability"
    return "compatible" if _is_list(parts) else "reference"


def _is_list(parts: dict[str, str]) -> bool:
    """Lists of what goes together, no tested combination: interpreters of a torch, and the CANN
    versions that a MindSpeed release accepts."""
    if set(parts) <= {"torch", "python"}:
        return True
    suite = any(key.startswith("mindspeed") for key in parts)
    return suite and "python" not in parts and "|" in parts.get("cann", "")


def _recommended(table: Table) -> Iterator[Draft]:
    """Components down the first column, one version each."""
    parts: dict[str, str] = {}
    for head, value in ((row[0], row[1]) for row in table.rows if len(row) > 1):
        keys = _components(head)
        text = _cell(keys[0], value) if keys else ""
        if text:
            parts[_wheel_or_product(keys[0], text)] = text
    if "cann" in parts and len(parts) >= 3:
        yield Draft("reference", parts, "current", table.title, table.line)


def _cell(key: str, cell: str) -> str:
    """The value of a cell as a specification; empty when the cell states nothing."""
    if _UNFINISHED.search(cell):
        return "master" if key.startswith("mindspeed") else ""
    text = _EDITION.sub("", cell).replace("*", "").strip()
    if text.lower() in _ABSENT:
        return "none" if key == "triton_ascend" and text else ""
    if key == "python":
        return _python(text)
    if key == "image":
        return text
    parts = [
        _PREFIX.sub("", part.strip()).replace(" ", "").removeprefix("==")
        for part in _ALTERNATIVES.split(text)
    ]
    return "|".join(part for part in parts if _VERSION.fullmatch(part))


def _python(text: str) -> str:
    if re.search(r"[<>]", text):
        return re.sub(r"\s", "", text)
    spans = re.findall(r"3\.(\d+)\s*[–~-]\s*3\.(\d+)", text)
    if spans:
        low, high = map(int, spans[0])
        return "|".join(f"3.{minor}" for minor in range(low, high + 1))
    return "|".join(dict.fromkeys(f"3.{minor}" for minor in re.findall(r"3\.(\d+)", text)))
