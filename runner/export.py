"""Trained weights as a Hugging Face folder: published names, safetensors shards, config.json.

What the stock ``save_pretrained`` would write, from sharded parameters: one tensor at a time is
gathered, and rank 0 writes a file whenever enough of them are there.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from certify.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from runner.names import Names
    from runner.parallel.shards import Shard

SHARD_BYTES = 5 << 30  # as published checkpoints are divided


def export(
    folder: Path,
    config: Mapping[str, Any],
    shards: list[Shard],
    names: Names,
    buffers: Mapping[str, torch.Tensor],
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write the folder, whole or not at all (collective).

    config: the content of config.json; buffers: `models.persistent_buffers`.
    Raises InfrastructureError on rank 0 when it cannot be written.
    """
    partial = folder.with_name(folder.name + ".tmp")
    tensors = _published(shards, names, buffers)
    if dist.get_rank() == 0:
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            _write(partial, tensors, shard_bytes)
            text = json.dumps(dict(config), indent=1, sort_keys=True, ensure_ascii=False)
            (partial / "config.json").write_text(text + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        except (OSError, RuntimeError) as error:
            raise InfrastructureError(
                f"cannot export the weights: {error}", where=str(folder), expected="free space"
            ) from error
    else:
        for _ in tensors:
            pass
    dist.barrier()


def _published(
    shards: list[Shard], names: Names, buffers: Mapping[str, torch.Tensor]
) -> Iterator[tuple[str, torch.Tensor]]:
    """(published name, full tensor on the CPU), in model order (collective)."""
    for shard in shards:
        for name, tensor in names.to_published(shard.name, shard.full(shard.local)):
            yield name, tensor.detach().cpu()
    for name, tensor in buffers.items():
        yield names.plain(name), tensor.detach().cpu()


def _write(folder: Path, tensors: Iterator[tuple[str, torch.Tensor]], limit: int) -> None:
    """Files of at most `limit` bytes each (one tensor at least), and their index."""
    waiting: dict[str, torch.Tensor] = {}
    written: list[list[str]] = []
    size = total = 0

    def flush() -> None:
        # A part of a fused tensor is a view: contiguous makes it one of its own.
        own = {name: tensor.contiguous().clone() for name, tensor in waiting.items()}
        save_file(own, str(folder / f"part-{len(written)}"), metadata={"format": "pt"})
        written.append(list(waiting))
        waiting.clear()

    for name, tensor in tensors:
        n_bytes = tensor.numel() * tensor.element_size()
        if waiting and size + n_bytes > limit:
            flush()
            size = 0
        waiting[name] = tensor
        size += n_bytes
        total += n_bytes
    flush()
    index: dict[str, str] = {}
    for number, parts in enumerate(written, start=1):
        file = f"model-{number:05d}-of-{len(written):05d}.safetensors"
        if len(written) == 1:
            file = "model.safetensors"
        (folder / f"part-{number - 1}").rename(folder / file)
        index.update(dict.fromkeys(parts, file))
    if len(written) > 1:
        body = {"metadata": {"total_size": total}, "weight_map": index}
        text = json.dumps(body, indent=1, sort_keys=True)
        (folder / "model.safetensors.index.json").write_text(text + "\n", encoding="utf-8")
