"""Reading below a root: links stay inside, nothing blocks, nothing raises."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from certify.environment.files import MAX_ENTRIES, Root

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "tree").mkdir()
    return tmp_path


@pytest.mark.parametrize("target", ["../secret", "../../../../../../secret", "{outside}/secret"])
def test_a_link_never_leads_outside(outside: Path, target: str) -> None:
    (outside / "tree/file").symlink_to(target.format(outside=outside))
    assert Root(str(outside / "tree")).read("/file") is None


def test_an_absolute_link_starts_again_at_the_root(outside: Path) -> None:
    tree = outside / "tree"
    (tree / "etc").mkdir()
    (tree / "etc/real").write_text("inside")
    (tree / "link").symlink_to("/etc/real")
    (tree / "folder").symlink_to("/etc")
    root = Root(str(tree))
    assert root.read("/link") == "inside"
    assert root.read("/folder/real") == "inside"
    assert root.resolve("/folder/../link") == "/etc/real"
    assert root.names("/folder") == ["real"]


def test_loops_and_missing_parts_are_absence(outside: Path) -> None:
    tree = outside / "tree"
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    root = Root(str(tree))
    assert root.resolve("/a") is None
    assert (root.read("/a"), root.names("/a"), root.stat("/a")) == (None, [], None)
    assert root.read("/no/such/file") is None
    assert root.read("/nul\0byte") is None


def test_a_pipe_is_refused_without_waiting(outside: Path) -> None:
    os.mkfifo(outside / "tree/pipe")
    root = Root(str(outside / "tree"))
    assert root.read("/pipe") is None
    assert not root.is_file("/pipe")


def test_reading_stops_at_the_limit(outside: Path) -> None:
    (outside / "tree/large").write_bytes(b"x" * 5000)
    assert Root(str(outside / "tree")).read("/large", 100) == "x" * 100


def test_unreadable_files_are_remembered(outside: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    file = outside / "tree/closed"
    file.write_text("x")
    file.chmod(0)
    root = Root(str(outside / "tree"))
    assert root.read("/closed") is None
    assert root.denied == ["/closed"]


def test_the_live_root_reads_plain_paths(outside: Path) -> None:
    root = Root("/")
    assert root.live
    assert root.read(str(outside / "secret")) == "outside"
    assert len(root.names("/")) <= MAX_ENTRIES
