"""Published checkpoints in, canonical tensors and digests out, whatever the layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from certify.errors import UsageError
from certify.records import root_digest
from runner.backends.mcore import parallel
from runner.digests import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from runner.backends.mcore.mapping import WeightMap
    from runner.backends.mcore.placement import Place


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


def load(places: list[Place], tensors: Mapping[str, Tensor], names: WeightMap) -> None:
    """Copy published tensors into this rank's parts of a Megatron model.

    Raises UsageError when the rules and the models of all ranks do not name the same parameters,
    when a tensor is missing or unknown, and when a shape differs.
    """
    held = set().union(*parallel.everyone({place.name for place in places}))
    if different := sorted(held ^ set(names.mcore_names)):
        raise UsageError(
            f"the mapping and the model differ in {len(different)} parameters",
            where=different[0],
            expected="a rule in runner.backends.mcore.mapping for every parameter",
        )
    wanted: dict[str, list[Place]] = {}
    for place in places:
        wanted.setdefault(place.name, []).append(place)
    with torch.no_grad():
        for name, tensor in names.to_mcore(tensors):
            for place in wanted.get(name, ()):
                mine = place.part(tensor)
                if place.parameter.shape != mine.shape:
                    raise UsageError(
                        f"shape {tuple(mine.shape)} in the checkpoint",
                        where=name,
                        expected=f"shape {tuple(place.parameter.shape)}, as model.hf_config says",
                    )
                place.parameter.copy_(mine)


def canonical(
    places: list[Place], names: WeightMap, value: Callable[[Place], Tensor | None]
) -> dict[str, Tensor]:
    """Published name -> whole tensor for what this rank speaks for (collective: every rank calls
    it, the ranks of a tensor-parallel group for the same places). value: the local part, None for
    a buffer that has none."""
    whole = {}
    for place in places:
        part = value(place)
        if part is None:
            continue
        tensor = place.whole(part)
        if place.is_first:
            whole[place.name] = tensor
    return names.to_hf(whole)


def digest(tensors: Mapping[str, Tensor]) -> str:
    """`root_digest` over canonical tensors, each on one rank (collective)."""
    mine = {name: digest_of(tensor) for name, tensor in tensors.items()}
    return root_digest({k: v for part in parallel.everyone(mine) for k, v in part.items()})


def on_rank_0(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All ranks' canonical tensors, on the CPU (collective); meant to be written by rank 0."""
    mine = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    return {k: v for part in parallel.everyone(mine) for k, v in part.items()}
