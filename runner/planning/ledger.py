"""Which bytes are alive, and what collectives move, while fake tensors are computed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Iterable

# Collective operators by their name in torch, and which argument holds the bytes that count:
# the gathered tensor of an all-gather, the tensor before reduction of a reduce-scatter, what one
# rank sends in an all-to-all.
_COLLECTIVES = {
    "_allgather_base_": ("all_gather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "alltoall_base_": ("all_to_all", 1),
    "allreduce_": ("all_reduce", 0),
}


class Ledger(TorchDispatchMode):  # type: ignore[misc]
    """Counts every storage once while it is alive, and collectives with their bytes.

    `peaks` holds the highest total within each moment since `moment` was called; `collectives`
    maps (kind, ranks of the group) to [calls, bytes].
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.peaks: dict[str, int] = {}
        self.collectives: dict[tuple[str, int], list[int]] = {}
        self._sizes: dict[int, int] = {}
        self._moment = "before"

    # -- moments ------------------------------------------------------------------------------

    def moment(self, name: str) -> None:
        """From now on peaks count for this moment; what is alive already counts as well."""
        self._moment = name
        self.peaks[name] = max(self.peaks.get(name, 0), self.live)

    def adopt(self, tensors: Iterable[torch.Tensor]) -> int:
        """Count tensors that existed before; returns the bytes that this added."""
        before = self.live
        for tensor in tensors:
            self._see(tensor)
        return self.live - before

    # -- storages -----------------------------------------------------------------------------

    def _see(self, tensor: torch.Tensor) -> None:
        if isinstance(tensor, DTensor):
            tensor = tensor._local_tensor
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes:
            weakref.finalize(storage, self._drop, key)
            self._sizes[key] = 0
        self._set(key, storage.nbytes())

    def _set(self, key: int, size: int) -> None:
        self.live += size - self._sizes[key]
        self._sizes[key] = size
        if self.live > self.peaks.get(self._moment, 0):
            self.peaks[self._moment] = self.live

    def _drop(self, key: int) -> None:
        self.live -= self._sizes.pop(key)

    # -- dispatch -----------------------------------------------------------------------------

    def __enter__(self) -> Any:
        stock = torch.UntypedStorage.resize_

        def resize(storage: torch.UntypedStorage, size: int) -> Any:
            # fully_shard frees gathered parameters by resizing; no operator tells of that.
            result = stock(storage, size)
            if storage._cdata in self._sizes:
                self._set(storage._cdata, storage.nbytes())
            return result

        self._stock_resize = stock
        torch.UntypedStorage.resize_ = resize
        return super().__enter__()

    def __exit__(self, *reason: Any) -> None:
        super().__exit__(*reason)
        torch.UntypedStorage.resize_ = self._stock_resize

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator and account for its results."""
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented  # its own dispatch calls operators on the local tensors
        if func.namespace in ("c10d", "_c10d_functional"):
            self._count(func, args)
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._see(leaf)
        return result

    def _count(self, func: Any, args: Any) -> None:
        name = func._schema.name.partition("::")[2]
        if name not in _COLLECTIVES:
            return
        kind, position = _COLLECTIVES[name]
        tensors = [t for t in tree_leaves(args[position]) if isinstance(t, torch.Tensor)]
        size = sum(t.numel() * t.element_size() for t in tensors)
        ranks = next(
            (torch.distributed.ProcessGroup.unbox(a).size() for a in args if _is_group(a)), 0
        )
        entry = self.collectives.setdefault((kind, ranks), [0, 0])
        entry[0] += 1
        entry[1] += size


def _is_group(value: Any) -> bool:
    return isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type())
