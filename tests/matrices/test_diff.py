"""Two states of the matrix compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrices.diff import compare
from tests.resolver.synthetic import matrix_of

if TYPE_CHECKING:
    from pathlib import Path


def test_added_removed_and_changed(tmp_path: Path) -> None:
    before = matrix_of(
        tmp_path / "a",
        {"id": "torch_npu-1", "components": "torch_npu=2.7.1 cann=8.3.RC1"},
        {"id": "torch_npu-2", "components": "torch_npu=2.8.0 cann=8.3.RC1"},
        {"id": "torch_npu-3", "components": "torch_npu=2.9.0 cann=8.5.0"},
    )
    after = matrix_of(
        tmp_path / "b",
        {"id": "torch_npu-1", "components": "torch_npu=2.7.1 cann=8.5.0", "state": "superseded"},
        {"id": "torch_npu-3", "components": "torch_npu=2.9.0 cann=8.5.0"},
        {"id": "torch_npu-4", "components": "torch_npu=2.9.0.post1 cann=8.5.0"},
    )
    changes = {change.claim.id: change for change in compare(before, after)}
    assert {name: change.kind for name, change in changes.items()} == {
        "torch_npu-1": "changed",
        "torch_npu-2": "removed",
        "torch_npu-4": "added",
    }
    assert changes["torch_npu-1"].fields == {
        "state": ("current", "superseded"),
        "components": ("torch_npu=2.7.1 cann=8.3.RC1", "torch_npu=2.7.1 cann=8.5.0"),
    }
    assert compare(before, before) == []
