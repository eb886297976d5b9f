"""Which parts of the fast path a run uses."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from certify.errors import UsageError
from certify.runspec import STATES

if TYPE_CHECKING:
    from certify.runspec import RunSpec


@dataclass(frozen=True)
class Switches:
    """The resolved switches of `certify.runspec.SpeedSpec`; all off is the plain path."""

    chunked_loss: bool = False
    compile_blocks: bool = False
    attention_kernels: bool = False
    fused_experts: bool = False
    master_weights: bool = False


def resolve(spec: RunSpec) -> Switches:
    """What is on in this run. ``auto``: what the device gains from and the run allows.

    Raises UsageError for an unknown state, and for a part that is asked for and cannot hold.
    """
    automatic = spec.device == "cuda" and not spec.deterministic
    chosen = {}
    for field in fields(Switches):
        state = getattr(spec.speed, field.name)
        if state not in STATES:
            raise UsageError(
                f"unknown state {state!r}",
                where=f"speed.{field.name}",
                expected=", ".join(STATES),
            )
        obstacle = _OBSTACLES.get(field.name, _none)(spec)
        if state == "on" and obstacle is not None:
            found, expected = obstacle
            raise UsageError(found, where=f"speed.{field.name}", expected=expected)
        chosen[field.name] = state == "on" or (state == "auto" and automatic and obstacle is None)
    if spec.speed.chunk_tokens < 1:
        raise UsageError(
            f"chunks of {spec.speed.chunk_tokens} positions",
            where="speed.chunk_tokens",
            expected="at least 1",
        )
    return Switches(**chosen)


def _none(spec: RunSpec) -> tuple[str, str] | None:
    return None


def _compile_obstacle(spec: RunSpec) -> tuple[str, str] | None:
    if spec.parallel.ep_size > 1:
        # The exchange of tokens reads its split sizes on the host: no graph can hold it.
        return "blocks with exchanged tokens cannot be compiled whole", "parallel.ep_size 1"
    return None


def _master_obstacle(spec: RunSpec) -> tuple[str, str] | None:
    if spec.model.dtype != "float32" or spec.parallel.param_dtype != "bfloat16":
        return (
            f"master weights of {spec.model.dtype} under {spec.parallel.param_dtype}",
            "model.dtype float32 and parallel.param_dtype bfloat16",
        )
    if spec.training.micro_batch * spec.world_size < spec.training.global_batch:
        # Gradients of several micro-batches would be added up in bfloat16.
        return (
            "several micro-batches in one step",
            "training.global_batch equal to training.micro_batch x world_size",
        )
    return None


_OBSTACLES = {"compile_blocks": _compile_obstacle, "master_weights": _master_obstacle}
