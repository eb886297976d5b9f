"""Names on disk and in memory, against what the stock classes themselves save and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

from certify.errors import UsageError
from runner.names import names_of
from tests.runner import family_configs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("model_type", family_configs.sampled("qwen3_moe", "minimax_m2", "gemma2"))
def test_published_names_and_values_are_those_of_save_pretrained(
    model_type: str, tmp_path: Path
) -> None:
    model = family_configs.stock(model_type)
    model.save_pretrained(str(tmp_path))
    saved = load_file(tmp_path / "model.safetensors")
    names = names_of(model)
    mine = {
        published: part
        for name, tensor in model.state_dict().items()
        for published, part in names.to_published(name, tensor)
    }
    for name, tensor in saved.items():
        assert torch.equal(mine.pop(name), tensor), name
    # What is left is the second name of tied embeddings.
    assert set(mine) <= {"lm_head.weight"}
    if mine:
        assert model.config.tie_word_embeddings


def test_a_conversion_that_is_no_renaming_is_refused() -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Linear(2, 2)

    def reversed_rows(model: Any, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: tensor.flip(0) for name, tensor in tensors.items()}

    odd: Any = Odd()
    odd.config = type("Config", (), {"model_type": "odd"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runner.names.to_published_names", reversed_rows)
        with pytest.raises(UsageError, match=r"published form of w\.weight"):
            names_of(odd)
