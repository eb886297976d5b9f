"""Published and fused names, and checkpoints that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from certify.errors import UsageError
from runner.names import Names
from runner.weights import Weights

pytestmark = pytest.mark.torch

STEM = "model.layers.3.mlp.experts"


def fused_names(n_experts: int) -> Names:
    """One fused tensor of gate and up projections."""
    parts = ("gate_proj", "up_proj")
    table = tuple(tuple(f"{STEM}.{e}.{p}.weight" for p in parts) for e in range(n_experts))
    return Names({f"{STEM}.gate_up_proj": table}, {"model.norm.weight": "norm.w"})


def test_fused_tensors_come_apart_under_published_names() -> None:
    names = fused_names(2)
    fused = torch.arange(2 * 4 * 3).float().view(2, 4, 3)
    found = dict(names.to_published(f"{STEM}.gate_up_proj", fused))
    assert list(found) == [
        f"{STEM}.0.gate_proj.weight",
        f"{STEM}.0.up_proj.weight",
        f"{STEM}.1.gate_proj.weight",
        f"{STEM}.1.up_proj.weight",
    ]
    assert torch.equal(found[f"{STEM}.1.gate_proj.weight"], fused[1, :2])
    assert torch.equal(found[f"{STEM}.1.up_proj.weight"], fused[1, 2:])
    assert names.published_dims(f"{STEM}.gate_up_proj", 3) == 2
    plain = dict(names.to_published("model.norm.weight", torch.ones(3)))
    assert list(plain) == ["norm.w"]
    assert names.published_dims("model.norm.weight", 1) == 1
    assert list(dict(names.to_published(f"{STEM}.x", fused))) == [f"{STEM}.x"]
    assert names.all_published("model.norm.weight") == ["norm.w"]
    assert len(names.all_published(f"{STEM}.gate_up_proj")) == 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three experts, each tensor filled with its own number."""
    tensors = {"norm.w": torch.full((3,), 9.0)}
    for e in range(3):
        for i, part in enumerate(("gate_proj", "up_proj")):
            tensors[f"{STEM}.{e}.{part}.weight"] = torch.full((2, 3), 10.0 * e + i)
    save_file(tensors, str(tmp_path / "model.safetensors"))
    return tmp_path


def test_reads_only_the_experts_asked_for(folder: Path) -> None:
    weights, names = Weights(str(folder)), fused_names(3)
    found = weights.read_memory(names, f"{STEM}.gate_up_proj", range(1, 3))
    assert found.shape == (2, 4, 3)
    assert found[:, :, 0].tolist() == [[10, 10, 11, 11], [20, 20, 21, 21]]
    assert weights.read_memory(names, "model.norm.weight", range(3)).tolist() == [9, 9, 9]


def test_names_the_missing_tensor_and_the_unreadable_file(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no tensor lm_head\.weight"):
        Weights(str(folder)).read("lm_head.weight")
    with pytest.raises(UsageError, match="no safetensors files"):
        Weights(str(folder / "absent"))
    (folder / "model.safetensors").write_bytes(b"garbage!" * 4)
    with pytest.raises(UsageError) as refused:
        Weights(str(folder))
    assert refused.value.where == str(folder / "model.safetensors")
