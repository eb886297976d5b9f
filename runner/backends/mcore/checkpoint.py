"""Saving and loading through Megatron's dist_checkpointing (format torch_dist), exactly.

Megatron's load has silent traps where Adam is torch's own; `load` avoids each, with its reason
beside it. A save is committed as a whole or not at all (`runner.manifest`).
"""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.strategies.torch import TorchDistSaveShardedStrategy
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

from certify.errors import UsageError
from runner import manifest
from runner.process_group import cannot, on_rank_0

if TYPE_CHECKING:
    from pathlib import Path

    from runner.backends.mcore.model import Parts

SIDE = "certify-rank-{:05d}.json"


@dataclass(frozen=True)
class Loaded:
    """step: steps trained before; next_batch: the data cursor; rng: this rank's random state, or
    None when fewer ranks wrote the checkpoint."""

    step: int
    next_batch: int
    rng: bytes | None


def _metadata() -> dict[str, Any]:
    """How the optimizer's state is divided: one tensor for each parameter, which any layout can
    read. The default asks for flattened ranges, which this format no longer has."""
    return {
        "distrib_optim_sharding_type": "fully_reshardable",
        "distrib_optim_fully_reshardable_mem_efficient": False,
        "chained_optim_avoid_prefix": True,
        "dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True),
    }


def _sharded(parts: Parts, is_loading: bool) -> dict[str, Any]:
    metadata = _metadata()
    found: dict[str, Any] = {}
    for number, chunk in enumerate(parts.chunks):
        key = "model" if len(parts.chunks) == 1 else f"model{number}"
        found[key] = chunk.module.sharded_state_dict(metadata=metadata)
    found["optimizer"] = parts.optimizer.sharded_state_dict(
        found, is_loading=is_loading, metadata=metadata
    )
    found["opt_param_scheduler"] = parts.scheduler.state_dict()
    return found


def save(folder: Path, parts: Parts, step: int, rng: bytes, run_id: str) -> None:
    """Commit the state after `step` to `folder` (collective).

    Raises InfrastructureError on every rank when any rank could not write (a full disk).
    """
    partial = folder.with_name(folder.name + ".tmp")

    def prepare() -> None:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)

    on_rank_0(prepare, "prepare a checkpoint", partial)
    side = {"step": step, "next_batch": step, "rng": rng.hex(), "optimizer": _kinds(parts)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist_checkpointing.save(
                _sharded(parts, is_loading=False),
                str(partial),
                # One writer for a rank: more would be more processes.
                TorchDistSaveShardedStrategy("torch_dist", 1, thread_count=1),
            )
        (partial / SIDE.format(dist.get_rank())).write_text(json.dumps(side), encoding="utf-8")
    except (OSError, RuntimeError, CheckpointingException) as error:
        if dist.get_rank() == 0:
            shutil.rmtree(partial, ignore_errors=True)
        raise cannot("write a checkpoint", partial, error) from error
    ranks = dist.get_world_size()
    dist.barrier()
    on_rank_0(
        lambda: manifest.commit(partial, folder, run_id, step, step, ranks),
        "commit a checkpoint",
        folder,
    )


def load(folder: Path, parts: Parts, verify: bool = True) -> Loaded:
    """Load a committed checkpoint of any layout into the live parameters and optimizer
    (collective). The random state is returned, not restored.

    Raises UsageError naming the file for a partial, changed or unfitting checkpoint.
    """

    def check() -> None:
        manifest.verify(folder) if verify else manifest.read(folder)

    on_rank_0(check, "read a checkpoint", folder)
    written = json.loads((folder / SIDE.format(0)).read_text(encoding="utf-8"))
    if written["optimizer"] != _kinds(parts):
        raise UsageError(
            f"the checkpoint holds the state of {written['optimizer']}, this run has"
            f" {_kinds(parts)}",
            where=str(folder),
            expected="a run with the distributed optimizer, and with expert parallel, as when"
            " it was written",
        )
    for inner in parts.inner:
        _init_state(inner)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = dist_checkpointing.load(_sharded(parts, is_loading=True), str(folder))
            for number, chunk in enumerate(parts.chunks):
                key = "model" if len(parts.chunks) == 1 else f"model{number}"
                chunk.module.load_state_dict(found[key], strict=True)
            parts.optimizer.load_state_dict(found["optimizer"])
    except (OSError, RuntimeError, ValueError, KeyError, CheckpointingException) as error:
        raise UsageError(
            f"the checkpoint does not fit this run: {error}",
            where=str(folder),
            expected="a checkpoint of the same model and optimizer",
        ) from error
    parts.scheduler.load_state_dict(found["opt_param_scheduler"])
    for inner in parts.inner:
        _own_steps(inner)
    side = folder / SIDE.format(dist.get_rank())
    own = json.loads(side.read_text(encoding="utf-8")) if side.is_file() else None
    rng = bytes.fromhex(own["rng"]) if own else None
    return Loaded(int(written["step"]), int(written["next_batch"]), rng)


def _kinds(parts: Parts) -> list[str]:
    """The classes of Megatron's optimizers: it writes the state of each in a form of its own."""
    return [type(inner).__name__ for inner in parts.inner]


def _init_state(inner: Any) -> None:
    """Give an optimizer that has not stepped its state: Megatron reads the step counts of what it
    is about to load into, and asserts that there are some."""
    if not isinstance(inner, DistributedOptimizer):
        return
    if not inner.optimizer.state:
        inner.init_state_fn(inner.optimizer, inner.config)
    for state in inner.optimizer.state.values():
        state.setdefault("step", inner.optimizer.param_groups[0]["params"][0].new_zeros(()))
    original = type(inner)._set_main_param_and_optimizer_states

    def set_states(parameter: Any, tensors: dict[str, Any]) -> None:
        # torch's Adam keeps a step tensor among the moments; Megatron copies every entry of the
        # state from what was loaded, where the step is not. Its own value is handed back to it.
        index, order = inner.model_param_group_index_map[parameter]
        state = inner.optimizer.state[inner.optimizer.param_groups[index]["params"][order]]
        own = {"step": state["step"]} if "step" in state else {}
        original(inner, parameter, {**own, **tensors})

    inner._set_main_param_and_optimizer_states = set_states


def _own_steps(inner: Any) -> None:
    """A step tensor for each parameter: Megatron hands all of them one and the same, which torch's
    Adam then counts up once for each parameter."""
    for state in inner.optimizer.state.values():
        if hasattr(state.get("step"), "clone"):
            state["step"] = state["step"].clone()
