"""fully_shard by module patterns, with sums in every reduction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard as ShardDim
from torch.utils.checkpoint import checkpoint

from certify.errors import UsageError
from runner.compat import use_sum_reductions
from runner.models import tied_parameters
from runner.parallel.expert import dispatch_tokens, divide_experts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.runspec import ParallelSpec
    from runner.parallel.mesh import Meshes


def matches(patterns: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """pattern -> the module names it matches, in model order. ``{*}`` stands for one component."""
    names = list(names)
    found = {}
    for pattern in patterns:
        parts = [re.escape(part) for part in re.split(r"\{\*\}", pattern)]
        expression = re.compile(r"[^.]+".join(parts))
        found[pattern] = [name for name in names if expression.fullmatch(name)]
    return found


@dataclass(frozen=True)
class Wrapped:
    """What `parallelise` did.

    experts: names of modules whose experts are divided over ranks; ignored: names of parameters
    that stay whole on every rank; unmatched: patterns of the spec that match no module.
    """

    experts: tuple[str, ...]
    ignored: frozenset[str]
    unmatched: tuple[str, ...]


def parallelise(
    model: nn.Module, parallel: ParallelSpec, meshes: Meshes, alone: bool = False
) -> Wrapped:
    """Divide and shard a model on the meta device, in place.

    alone: one rank holds the whole model, already in the type it computes in: nothing is sharded.

    Raises UsageError when a pattern that must match something does not.
    """
    names = [name for name, _ in model.named_modules() if name]
    found = {
        key: matches(getattr(parallel, key), names)
        for key in ("fsdp_modules", "ignored_modules", "recompute_modules")
    }
    if not any(found["fsdp_modules"].values()):
        raise UsageError(
            "no module of the model matches parallel.fsdp_modules",
            where=", ".join(parallel.fsdp_modules),
            expected=f"names such as {', '.join(names[:4])}",
        )
    ignored = _parameters_under(model, _flat(found["ignored_modules"]))
    for name in _flat(found["recompute_modules"]):
        _recompute(model.get_submodule(name))
    experts = _expert_modules(parallel, names) if meshes.expert is not None else []
    for name in experts:
        _shard_experts(model.get_submodule(name), name, meshes, parallel)
    if not alone:
        _shard_dense(model, [n for n in _flat(found["fsdp_modules"]) if n not in experts],
                     ignored, meshes, parallel)  # fmt: skip
    for module in model.modules():
        if isinstance(module, FSDPModule):
            use_sum_reductions(module)
    unmatched = [p for table in found.values() for p, hits in table.items() if not hits]
    return Wrapped(tuple(experts), frozenset(ignored), tuple(unmatched))


def _shard_dense(
    model: nn.Module, names: list[str], ignored: set[str], meshes: Meshes, parallel: ParallelSpec
) -> None:
    """Shard the named modules over the dense mesh, and what is left over as the root."""
    options = {
        "mesh": _flat_mesh(meshes.dense, "replicate", "fsdp"),
        "mp_policy": _policy(parallel),
        "reshard_after_forward": parallel.reshard_after_forward,
        "ignored_params": {p for n, p in model.named_parameters() if n in ignored},
    }
    # Tied parameters must share one group, and the only one that holds all users is the root's.
    tied = {n.rpartition(".")[0] for pair in tied_parameters(model).items() for n in pair}
    # Deeper modules first: each call takes the parameters that no call before it has taken.
    for name in sorted(names, key=lambda n: -n.count(".")):
        if name not in tied:
            fully_shard(model.get_submodule(name), **options)
    fully_shard(model, **options)


def _flat(found: dict[str, list[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in found.values() for name in names))


def _parameters_under(model: nn.Module, names: list[str]) -> set[str]:
    prefixes = tuple(f"{name}." for name in names)
    return {n for n, _ in model.named_parameters() if prefixes and n.startswith(prefixes)}


def _policy(parallel: ParallelSpec) -> MixedPrecisionPolicy:
    return MixedPrecisionPolicy(
        param_dtype=getattr(torch, parallel.param_dtype),
        reduce_dtype=getattr(torch, parallel.reduce_dtype),
    )


def _flat_mesh(mesh: Any, replicate: str, shard: str) -> Any:
    """The one-dimensional shard mesh, or two dimensions where there are replicas."""
    return mesh[replicate, shard] if mesh[replicate].size() > 1 else mesh[shard]


def _expert_modules(parallel: ParallelSpec, names: list[str]) -> list[str]:
    divided = _flat(matches(parallel.ep_modules, names))
    sharded = _flat(matches(parallel.ep_fsdp_modules, names))
    if not divided:
        raise UsageError(
            f"ep_size is {parallel.ep_size} but no module matches parallel.ep_modules",
            where=", ".join(parallel.ep_modules),
            expected="a model with routed experts, or ep_size 1",
        )
    if set(divided) != set(sharded):
        raise UsageError(
            "parallel.ep_modules and parallel.ep_fsdp_modules match different modules",
            where=", ".join(sorted(set(divided) ^ set(sharded))),
            expected="the same modules: experts that are divided are also sharded",
        )
    return divided


def _shard_experts(module: nn.Module, name: str, meshes: Meshes, parallel: ParallelSpec) -> None:
    expert = meshes.expert
    assert expert is not None
    divide_experts(module, name, parallel.ep_size)
    dispatch_tokens(module, expert["ep"].get_group())
    fully_shard(
        module,
        mesh=_flat_mesh(expert, "expert_replicate", "ep_fsdp"),
        mp_policy=_policy(parallel),
        reshard_after_forward=parallel.reshard_after_forward,
        # Dimension 0 is already divided over ep: sharding another one keeps the global layout
        # a plain product of two shardings.
        shard_placement_fn=lambda _: ShardDim(1),
    )


def _recompute(module: Any) -> None:
    """Drop the activations of a module after its forward; compute them again in the backward."""
    stock = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(stock, *args, use_reentrant=False, **kwargs)

    module.forward = forward
