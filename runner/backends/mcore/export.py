"""Trained weights as a Hugging Face folder, from Megatron's own parameters."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch.distributed as dist
from safetensors.torch import save_file

from runner.backends.mcore import weights
from runner.process_group import on_rank_0

if TYPE_CHECKING:
    from certify.runspec import RunSpec
    from runner.backends.mcore.mapping import WeightMap
    from runner.backends.mcore.placement import Place


def export(spec: RunSpec, places: list[Place], names: WeightMap) -> None:
    """Write ``export`` in the run folder, whole or not at all (collective).

    Raises InfrastructureError on every rank when it cannot be written.
    """
    folder = Path(spec.run_dir) / "export"
    partial = folder.with_name(folder.name + ".tmp")
    local = weights.canonical(places, names, lambda place: place.parameter.detach())
    tensors = weights.on_rank_0(local)

    def write() -> None:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        # A part of a stacked tensor is a view: contiguous makes it one of its own.
        own = {name: tensor.contiguous().clone() for name, tensor in sorted(tensors.items())}
        save_file(own, str(partial / "model.safetensors"), metadata={"format": "pt"})
        text = json.dumps(spec.model.hf_config, indent=1, sort_keys=True, ensure_ascii=False)
        (partial / "config.json").write_text(text + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)

    on_rank_0(write, "export the weights", folder)
    dist.barrier()
