"""Published checkpoints in, canonical tensors and digests out. Nothing of megatron is imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from certify.errors import UsageError
from certify.records import root_digest, tensor_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from runner.backends.mcore.mapping import WeightMap


def read(folder: str | Path) -> dict[str, Tensor]:
    """All tensors of a Hugging Face checkpoint folder by published name.

    Raises UsageError naming the file that is missing or damaged.
    """
    folder = Path(folder)
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    tensors: dict[str, Tensor] = {}
    for name in names:
        try:
            tensors |= load_file(folder / name)
        except (OSError, SafetensorError) as error:
            raise UsageError(
                f"cannot read initial weights: {error}",
                where=str(folder / name),
                expected="a Hugging Face checkpoint in safetensors form",
                hint="run the phase `prepare` again",
            ) from None
    return tensors


def digest(tensors: Mapping[str, Tensor]) -> str:
    """`root_digest` over full tensors under canonical names."""
    return root_digest({name: _one(tensor) for name, tensor in tensors.items()})


def _one(tensor: Tensor) -> str:
    local = tensor.detach().cpu().contiguous()
    raw = local.reshape(-1).view(torch.uint8).numpy().tobytes()
    return tensor_digest(str(local.dtype).removeprefix("torch."), local.shape, raw)


def load(model: nn.Module, tensors: Mapping[str, Tensor], names: WeightMap) -> None:
    """Copy published tensors into a Megatron model.

    Raises UsageError when the rules and the model do not name the same parameters, when a tensor
    is missing or unknown, and when a shape differs.
    """
    parameters = dict(model.named_parameters())
    if different := sorted(set(parameters) ^ set(names.mcore_names)):
        raise UsageError(
            f"the mapping and the model differ in {len(different)} parameters",
            where=different[0],
            expected="a rule in runner.backends.mcore.mapping for every parameter",
        )
    with torch.no_grad():
        for name, tensor in names.to_mcore(tensors):
            target = parameters[name]
            if target.shape != tensor.shape:
                raise UsageError(
                    f"shape {tuple(tensor.shape)} in the checkpoint",
                    where=name,
                    expected=f"shape {tuple(target.shape)}, as model.hf_config says",
                )
            target.copy_(tensor)


def parameters(model: nn.Module, names: WeightMap) -> dict[str, Tensor]:
    """The parameters of a Megatron model under canonical names."""
    return names.to_hf({name: p.detach() for name, p in model.named_parameters()})


def gradients(model: nn.Module, names: WeightMap) -> dict[str, Tensor]:
    """The gradients that Megatron's DDP has accumulated, under canonical names (views)."""
    return names.to_hf({name: p.main_grad for name, p in model.named_parameters()})
