"""Digests against lists in both forms of sha256sum, and commands of downloads."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from certify.errors import UsageError
from certify.weights import digests
from certify.weights.downloads import downloads_of
from certify.weights.findings import Findings

EMPTY = hashlib.sha256(b"").hexdigest()


def listed(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "SUMS"
    path.write_text(text)
    return digests.read_manifest(path)


def test_both_forms(tmp_path: Path) -> None:
    found = listed(
        tmp_path,
        f"# comment\n{EMPTY}  ./a\n{EMPTY.upper()} *b c\n\nSHA256 (d) = {EMPTY}\n{EMPTY}  a\n",
    )
    assert found == dict.fromkeys(("a", "b c", "d"), EMPTY)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        (f"{EMPTY} a\n", "not a digest and a name"),
        (f"{EMPTY[:-1]}  a\n", "not a digest and a name"),
        (f"{EMPTY}  a\n{'0' * 64}  a\n", "'a' has two digests"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        listed(tmp_path, text)


def test_compare(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("same", "sub/same", "other", "unlisted"):
        (tmp_path / name).write_bytes(b"" if "same" in name else b"x")
    (tmp_path / "link").symlink_to("/etc/hostname")
    names = ("same", "sub/same", "other", "gone", "../up", "/abs", "link", "sub")
    found = Findings()
    equal = digests.check(tmp_path, dict.fromkeys(names, EMPTY), {"same", "unlisted"}, found)
    assert equal == 2
    assert [(one.rule, one.severity, one.where) for one in found.items] == [
        ("W02", "error", "../up"),
        ("W02", "error", "/abs"),
        ("W12", "error", "gone"),
        ("W02", "error", "link"),
        ("W12", "error", "other"),
        ("W02", "error", "sub"),
        ("W12", "note", "unlisted"),
    ]


def test_commands_of_a_published_link() -> None:
    scope, hugging = downloads_of("https://huggingface.co/Qwen/Qwen3-8B/tree/main", "my models")
    assert scope.command == "modelscope download --model Qwen/Qwen3-8B --local_dir 'my models'"
    assert hugging.command == "hf download Qwen/Qwen3-8B --local-dir 'my models'"
    assert (scope.published, hugging.published) == (False, True)
    scope, hugging = downloads_of("https://modelscope.cn/models/unsloth/gpt-oss-20b-BF16/", "d")
    assert (scope.repository, scope.published) == ("unsloth/gpt-oss-20b-BF16", True)
    assert not hugging.published


@pytest.mark.parametrize("link", ["", "https://example.org/a/b", "https://huggingface.co/x", "::"])
def test_no_link_no_command(link: str) -> None:
    assert downloads_of(link, "d") == ()


def test_every_link_of_the_list_gives_commands() -> None:
    from certify.recipes.rows import load_support_list

    without = {row.id for row in load_support_list() if not downloads_of(row.weights, "d")}
    assert without == {row.id for row in load_support_list() if not row.weights}
