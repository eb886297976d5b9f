"""torch as Megatron's modules see it on a CPU: the CUDA device is the CPU, streams do nothing."""

from __future__ import annotations

import contextlib
import types
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CPU = torch.device("cpu")


class _Stream:
    """A stream or event of a device that has none: work is done when the call returns."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def wait_stream(self, _: Any) -> None:
        pass

    def wait_event(self, _: Any) -> None:
        pass

    def record_event(self, _: Any = None) -> _Stream:
        return self

    def record(self, _: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass


_ONLY_STREAM = _Stream()


@contextlib.contextmanager
def _on_stream(_: Any = None) -> Iterator[None]:
    yield


class _Cuda(types.ModuleType):
    """``torch.cuda`` for Megatron's modules: the current device is the CPU."""

    Stream = _Stream
    Event = _Stream
    stream = staticmethod(_on_stream)

    def __init__(self) -> None:
        super().__init__("torch.cuda")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cuda, name)

    @staticmethod
    def current_device() -> torch.device:
        return CPU

    @staticmethod
    def synchronize(_: Any = None) -> None:
        pass

    @staticmethod
    def current_stream(_: Any = None) -> _Stream:
        return _ONLY_STREAM

    @staticmethod
    def default_stream(_: Any = None) -> _Stream:
        return _ONLY_STREAM


def _on_cpu(factory: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def create(*args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("device") == "cuda":
            kwargs["device"] = CPU
        return factory(*args, **kwargs)

    return create


class CpuTorch(types.ModuleType):
    """torch with tensors asked for on ``cuda`` made on the CPU; the rest is torch's own."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.cuda = _Cuda()
        self.zeros = _on_cpu(torch.zeros)
        self.ones = _on_cpu(torch.ones)
        self.empty = _on_cpu(torch.empty)
        self.tensor = _on_cpu(torch.tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)
