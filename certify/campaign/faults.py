"""The seeded faults that ``--inject`` accepts, asked of the runner that implements them."""

from __future__ import annotations

import subprocess
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from certify.campaign.commands import environment
from certify.errors import InfrastructureError, UsageError
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


# What a fault may need (`runner.callpoints.Fault.needs`), for people.
_NEEDS = {
    "aux-loss": "auxiliary loss of its routers",
    "tied": "tied embeddings",
    "router-bias": "bias in its routers' choice",
    "mask": "labels left out of the loss",
    "accumulation": "second micro-batch on a rank",
}


def known_faults() -> dict[str, dict[str, Any]]:
    """name -> summary, side, gates, backends and what it needs (`runner.callpoints.Fault`).

    Asked in a process of its own: the border between certify and the runner is a process, also
    for this.
    """
    import os

    done = subprocess.run(
        (sys.executable, "-m", "runner.faults"),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment(threads=1)},
        check=False,
    )
    try:
        faults: dict[str, dict[str, Any]] = load_json(done.stdout)
    except ValueError:
        raise InfrastructureError(
            "the runner does not list its faults", where=done.stderr.strip()[-300:]
        ) from None
    return faults


def find_fault(
    name: str,
    backends: Mapping[str, str],
    has_experts: bool,
    tensor_parallel: bool = False,
    has: Container[str] = (),
) -> tuple[str, str]:
    """(side, name) of a fault. backends: side -> the backend that trains it; has_experts: the
    model's; tensor_parallel: whether the candidate's layout divides tensors; has: what else the
    model and the data have (`runner.callpoints.Fault.needs`).

    Raises UsageError with near matches for an unknown fault, and for one that would change
    nothing here: a run that trains on unharmed looks as if no gate had seen the fault.
    """
    faults = known_faults()
    if name not in faults:
        near = get_close_matches(name, faults, n=3)
        raise UsageError(
            f"unknown fault {name!r}",
            where="--inject",
            expected=f"one of {', '.join(sorted(faults))}",
            hint=f"did you mean {near[0]}?" if near else None,
        )

    def why_not(fault: Mapping[str, Any]) -> str | None:
        backend = backends[fault["side"]]
        if backend not in fault["backends"]:
            return f"the {backend} backend, which trains the {fault['side']}, does not carry it out"
        if fault["needs_experts"] and not has_experts:
            return "the model has no experts"
        if fault["needs_tensor_parallel"] and not tensor_parallel:
            return "the layout has no tensor parallel"
        if fault["needs"] and fault["needs"] not in has:
            return f"this model and data have no {_NEEDS[fault['needs']]}"
        return None

    reason = why_not(faults[name])
    if reason is not None:
        able = sorted(other for other, fault in faults.items() if why_not(fault) is None)
        raise UsageError(
            f"the fault {name!r} would change nothing: {reason}",
            where="--inject",
            expected=f"one of {', '.join(able)}",
        )
    return str(faults[name]["side"]), name
