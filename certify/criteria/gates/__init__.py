"""One module per gate; a gate is a function from a case to a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.gates import (
    backward_parity,
    cross_backend,
    environment,
    finite,
    first_update,
    forward_parity,
    loss_curve,
    memory,
    neutrality,
    plan_followed,
    reshard,
    resume,
    throughput,
    upgrade,
    worker_loss,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from certify.criteria.case import Case
    from certify.criteria.outcome import Finding

# Gates of the criteria that are not here have no records yet: they cannot be decided.
GATES: dict[str, Callable[[Case], Finding]] = {
    "environment": environment.judge,
    "plan-followed": plan_followed.judge,
    "finite": finite.judge,
    "forward-parity": forward_parity.judge,
    "backward-parity": backward_parity.judge,
    "first-update": first_update.judge,
    "loss-curve": loss_curve.judge,
    "resume": resume.judge,
    "reshard": reshard.judge,
    "worker-loss": worker_loss.judge,
    "cross-backend": cross_backend.judge,
    "upgrade": upgrade.judge,
    "throughput": throughput.judge,
    "memory": memory.judge,
    "neutrality": neutrality.judge,
}
