"""Support lists: Markdown with HTML tables, row spans, Chinese and English."""

from __future__ import annotations

import contextlib
import time

import pytest

from certify.errors import UsageError
from certify.recipes.importers.support_list import compare, read_list
from certify.recipes.load import load_support_list

HEAD = """# list
<table><thead><tr><th>{}</th><th>{}</th><th>{}</th><th>{}</th><th>{}</th><th>{}</th><th>{}</th>
<th>{}</th><th>{}</th></tr></thead><tbody>
"""
ZH = HEAD.format(
    "模型", "下载链接", "脚本位置", "序列长度", "训练后端", "集群规模", "支持版本", "贡献方", "认证"
)
EN = HEAD.format(
    "Model", "Download Link", "Script Path", "Sequence Length", "Training Backend",
    "Cluster Size", "Supported Version", "Contributor", "Certification",
)  # fmt: skip
ROWS = """<tr>
<td rowspan="3"><a href="m">Qwen3</a></td>
<td><a href="w0">0.6B</a></td>
<td rowspan="2"><a href="../../../../examples/mcore/qwen3">qwen3</a></td>
<td> 4{k} </td><th> M{c}ore </th><td>1x8</td><td> </td><td>{l}Ascend{r}</td><td>{l}Pass{r}</td>
</tr>
<tr>
<td><a href="w1">1.7B</a></td>
<td>4{k}</td><th>Mcore</th><td>1x8</td><td></td><td>{l}Ascend{r}</td><td>{l}Test{r}</td>
</tr>
<tr>
<td><a href="w2">32B</a></td><td><a href="f">qwen3</a></td>
<td>4{k}</td><th>FSDP2</th><td>1 x 16</td><td></td><td>{l}Ascend{r}</td><td>{l}test{r}</td>
</tr>
</tbody></table>
"""


def _doc(head: str, **words: str) -> str:
    return head + ROWS.format(**words)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (_doc(ZH, k="k", c="c", l="【", r="】"), "zh"),
        (_doc(EN, k="K", c="C", l="[", r="]"), "en"),
    ],
)
def test_row_spans_are_spread_in_both_languages(text: str, language: str) -> None:
    document = read_list(text, "x.md")
    assert document.language == language
    shown = [
        (row.fields["model"], row.fields["size"], row.fields["script"], row.fields["backend"],
         row.fields["cluster"], row.fields["status"], row.fields["weights"])
        for row in document.rows
    ]  # fmt: skip
    assert shown == [
        ("Qwen3", "0.6B", "qwen3", "Mcore", "1x8", "Pass", "w0"),
        ("Qwen3", "1.7B", "qwen3", "Mcore", "1x8", "Test", "w1"),
        ("Qwen3", "32B", "qwen3", "FSDP2", "1x16", "Test", "w2"),
    ]
    assert document.problems == []


def test_what_changed_upstream_is_listed() -> None:
    text = _doc(ZH, k="k", c="c", l="【", r="】").replace("32B", "33B")
    changes = compare(load_support_list(), read_list(text, "x.md"))
    changed = [(c.key, c.field, c.ours, c.theirs) for c in changes if c.kind == "changed"]
    assert changed == [("qwen3-1p7b-4k-mcore", "status", "Pass", "Test")]
    assert [c.key for c in changes if c.kind == "added"] == ["Qwen3 33B 4k FSDP2"]
    removed = [c.key for c in changes if c.kind == "removed"]
    assert len(removed) == 141
    assert "qwen3-32b-4k-fsdp2" in removed


def test_a_wrong_row_span_is_a_problem_with_its_line() -> None:
    text = _doc(ZH, k="k", c="c", l="【", r="】").replace('rowspan="2"', 'rowspan="1"')
    document = read_list(text, "x.md")
    assert [row.fields["size"] for row in document.rows] == ["0.6B", "32B"]
    assert [line for line, _ in document.problems] == [text.split("\n").index(
        '<td>4k</td><th>Mcore</th><td>1x8</td><td></td><td>【Ascend】</td><td>【Test】</td>'
    ) + 1]  # fmt: skip


def test_a_missing_row_tag_is_noted_and_the_row_read() -> None:
    text = _doc(ZH, k="k", c="c", l="【", r="】").replace(
        '</tr>\n<tr>\n<td><a href="w1">', '</tr>\n<td><a href="w1">'
    )
    document = read_list(text, "x.md")
    assert len(document.rows) == 3
    assert ["<tr> is missing" in message for _, message in document.problems] == [True]


def test_rows_in_comments_are_not_read() -> None:
    text = _doc(ZH, k="k", c="c", l="【", r="】")
    third = '<tr>\n<td><a href="w2">'
    commented = '<!-- x\n-->\n<tr><!-- <td>no</td>-->\n<td><a href="w2">'
    assert third in text
    document = read_list(text.replace(third, commented), "x.md")
    assert len(document.rows) == 3


@pytest.mark.parametrize("text", ["", "# nothing", "<table><tr><td>a</td></tr></table>"])
def test_a_document_without_the_table_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_list(text, "x.md")


@pytest.mark.parametrize(
    "piece", ["<!--", "</", "<", "<td>", "<td rowspan=9999>a", "<table>", "&", "<a ", "<tr><td>"]
)
def test_a_hostile_document_ends_soon(piece: str) -> None:
    start = time.monotonic()
    with contextlib.suppress(UsageError):
        read_list(ZH + piece * (200_000 // len(piece)), "x.md")
    assert time.monotonic() - start < 30
