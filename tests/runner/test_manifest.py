"""Committed, partial and damaged checkpoint folders; what retention may delete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from certify.errors import UsageError
from runner import manifest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch


def committed(parent: Path, step: int, text: str = "data") -> Path:
    """A small committed folder."""
    final = parent / f"step-{step:06d}"
    partial = parent / f"step-{step:06d}.tmp"
    partial.mkdir(parents=True)
    (partial / "a.distcp").write_text(text)
    (partial / ".metadata").write_text("meta")
    manifest.commit(partial, final, "run", step, step, 2)
    return final


def test_commit_replaces_the_partial_folder(tmp_path: Path) -> None:
    final = committed(tmp_path, 3)
    assert [p.name for p in tmp_path.iterdir()] == ["step-000003"]
    found = manifest.verify(final)
    assert (found.step, found.next_batch, found.world_size) == (3, 3, 2)
    assert sorted(found.files) == [".metadata", "a.distcp"]


def test_commit_over_an_older_one_of_the_same_step(tmp_path: Path) -> None:
    committed(tmp_path, 3)
    final = committed(tmp_path, 3, "other")
    assert [p.name for p in tmp_path.iterdir()] == ["step-000003"]
    assert (final / "a.distcp").read_text() == "other"
    manifest.verify(final)


def flip(final: Path) -> str:
    (final / "a.distcp").write_text("dbta")
    return "a.distcp"


def cut(final: Path) -> str:
    (final / "a.distcp").write_text("dat")
    return "a.distcp"


def remove(final: Path) -> str:
    (final / ".metadata").unlink()
    return ".metadata"


def uncommit(final: Path) -> str:
    (final / manifest.NAME).unlink()
    return manifest.NAME


def truncate(final: Path) -> str:
    text = (final / manifest.NAME).read_text()
    (final / manifest.NAME).write_text(text[: len(text) // 2])
    return manifest.NAME


def edit(final: Path) -> str:
    body = json.loads((final / manifest.NAME).read_text())
    body["step"] = 4
    (final / manifest.NAME).write_text(json.dumps(body))
    return manifest.NAME


@pytest.mark.parametrize("damage", [flip, cut, remove, uncommit, truncate, edit])
def test_a_damaged_folder_is_refused_by_the_file_at_fault(damage, tmp_path: Path) -> None:
    final = committed(tmp_path, 3)
    name = damage(final)
    with pytest.raises(UsageError) as refused:
        manifest.verify(final)
    assert refused.value.where == str(final / name)


def test_retention_keeps_the_newest_and_the_protected(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 50):
        committed(tmp_path, step)
    (tmp_path / "step-000045.tmp").mkdir()
    assert manifest.retain(tmp_path, keep=2, protected=frozenset({20})) == [10, 30]
    assert [step for step, _ in manifest.committed(tmp_path)] == [20, 40, 50]
    assert not (tmp_path / "step-000045.tmp").exists()
    assert manifest.retain(tmp_path, keep=0, protected=frozenset()) == [20, 40]
    assert [step for step, _ in manifest.committed(tmp_path)] == [50]


def test_retention_never_deletes_the_last_good_one(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        committed(tmp_path, step)
    for step in (30, 40):
        flip(tmp_path / f"step-{step:06d}")
    assert manifest.retain(tmp_path, keep=2, protected=frozenset()) == [10]
    assert [step for step, _ in manifest.committed(tmp_path)] == [20, 30, 40]
    flip(tmp_path / "step-000020")
    assert manifest.retain(tmp_path, keep=1, protected=frozenset()) == []  # none is good
    committed(tmp_path, 50)
    assert manifest.retain(tmp_path, keep=1, protected=frozenset()) == [20, 30, 40]


def test_a_partial_folder_is_not_counted_as_a_checkpoint(tmp_path: Path) -> None:
    final = committed(tmp_path, 10)
    newer = committed(tmp_path, 20)
    (newer / manifest.NAME).unlink()
    assert manifest.committed(tmp_path) == [(10, final)]
    assert manifest.retain(tmp_path, keep=1, protected=frozenset()) == []
    manifest.verify(final)
