"""Buffers that no checkpoint holds (rotary frequencies, scales of embeddings), built again.

A model on the meta device has lost their values. Most such modules are built from the model's
configuration alone: another one is built and read. Where a class takes other arguments, these
are noted while the model is built a second time.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch import nn

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ARGUMENTS = "_certify_arguments"


def _lost(module: nn.Module) -> list[str]:
    lost = module._non_persistent_buffers_set
    return [key for key in sorted(lost) if getattr(module, key) is not None]


def _from_configuration(module: nn.Module) -> bool:
    has_parameters = any(True for _ in module.parameters(recurse=False))
    return getattr(module, "config", None) is not None and not has_parameters


def built_twice(build: Callable[[], nn.Module]) -> nn.Module:
    """A model on the meta device whose lost buffers `rebuild` can give values.

    build: makes the model; called again only when some class needs more than a configuration.
    """
    model = build()
    other = {
        type(module)
        for module in model.modules()
        if _lost(module) and not _from_configuration(module)
    }
    if not other:
        return model
    with ExitStack() as noting:
        for kind in other:
            noting.enter_context(_arguments_noted(kind))
        return build()


@contextmanager
def _arguments_noted(kind: type[Any]) -> Iterator[None]:
    """Every instance of a class made inside keeps the arguments it was made with."""
    stock = kind.__init__

    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        # A subclass's own note, written after its base returned, is the one that stays.
        object.__setattr__(self, _ARGUMENTS, (args, kwargs))

    with mock.patch.object(kind, "__init__", noting):
        yield


def rebuild(name: str, module: Any) -> None:
    """Give the non-persistent buffers of one materialised module their values, in place.

    Raises UsageError for a module that cannot be built again.
    """
    lost = _lost(module)
    if not lost:
        return
    arguments = getattr(module, _ARGUMENTS, None)
    if arguments is None and _from_configuration(module):
        arguments = ((module.config,), {})
    if arguments is None:
        raise UsageError(
            f"the buffers {', '.join(lost)} of {name} cannot be rebuilt",
            where=f"class {type(module).__name__}",
            expected="a module that is built from its configuration alone",
        )
    args, kwargs = arguments
    # The drawing of its parameters, which are thrown away, must not move the generators.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        fresh = dict(type(module)(*args, **kwargs).named_buffers(recurse=False))
    with torch.no_grad():
        for key in lost:
            getattr(module, key).copy_(fresh[key])
