"""Export in several files, and buffers that no checkpoint holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors import safe_open
from torch import nn

from certify.errors import UsageError
from runner import export
from runner.buffers import built_twice, rebuild

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch


def test_files_stay_below_the_limit_and_the_index_names_them(tmp_path: Path) -> None:
    tensors = {f"w{i}": torch.full((4,), float(i)) for i in range(5)}
    export._write(tmp_path, iter(tensors.items()), limit=40)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 5 * 16
    assert sorted(set(index["weight_map"].values())) == [
        f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)
    ]
    for name, tensor in tensors.items():
        with safe_open(str(tmp_path / index["weight_map"][name]), framework="pt") as file:
            assert torch.equal(file.get_tensor(name), tensor)
    assert not list(tmp_path.glob("part-*"))


class Scaled(nn.Embedding):
    """As some families have it: a buffer that follows from an argument, beside parameters."""

    def __init__(self, rows: int, width: int, scale: float) -> None:
        super().__init__(rows, width)
        self.register_buffer("scale", torch.tensor(scale), persistent=False)


def test_a_buffer_that_follows_from_arguments_is_rebuilt_without_drawing() -> None:
    def build() -> nn.Module:
        with torch.device("meta"):
            return nn.Sequential(Scaled(3, 2, scale=8.0))

    model: Any = built_twice(build)
    model.to_empty(device="cpu")
    model[0].scale.fill_(0)
    state = torch.get_rng_state()
    rebuild("0", model[0])
    assert model[0].scale.item() == 8.0
    assert torch.equal(state, torch.get_rng_state())
    plain = build()
    plain.to_empty(device="cpu")
    with pytest.raises(UsageError, match="buffers scale of 0 cannot be rebuilt"):
        rebuild("0", plain[0])  # type: ignore[index]
