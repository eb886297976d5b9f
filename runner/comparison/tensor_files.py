"""Reads named tensors of safetensors files block by block, in float64.

Blocks run along the first dimension, so memory does not grow with the model.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = 1 << 22  # elements per block; times 8 bytes and about six blocks alive at once


class TensorFiles:
    """Named tensors in one or more safetensors files. Use as a context manager.

    Raises UsageError when a file is not a safetensors file.
    """

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._where: dict[str, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> TensorFiles:
        for path in self._paths:
            try:
                file = self._stack.enter_context(safe_open(str(path), framework="pt"))
            except (SafetensorError, OSError) as error:
                self._stack.close()
                raise UsageError(
                    f"cannot read tensors: {error}",
                    where=str(path),
                    expected="a complete safetensors file",
                    hint="run that phase again",
                ) from None
            self._where.update(dict.fromkeys(file.keys(), file))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def names(self) -> set[str]:
        """All tensor names."""
        return set(self._where)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of one tensor."""
        return tuple(self._where[name].get_slice(name).get_shape())

    def rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Rows [start, stop) of the first dimension, float64, flat. A scalar has one row."""
        if not self.shape(name):
            return self._where[name].get_tensor(name).double().reshape(-1)
        return self._where[name].get_slice(name)[start:stop].double().reshape(-1)


def blocks(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Row ranges that cover a tensor in blocks of about BLOCK elements."""
    rows = shape[0] if shape else 1
    step = max(1, BLOCK // max(1, math.prod(shape[1:])))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


def rolled(files: TensorFiles, name: str, start: int, stop: int) -> torch.Tensor:
    """Rows [start, stop) of the tensor rolled by one along its first dimension."""
    rows = files.shape(name)[0]
    if start:
        return files.rows(name, start - 1, stop - 1)
    return torch.cat([files.rows(name, rows - 1, rows), files.rows(name, 0, stop - 1)])
