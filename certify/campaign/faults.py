"""The seeded faults that ``--inject`` accepts, asked of the runner that implements them."""

from __future__ import annotations

import subprocess
import sys
from difflib import get_close_matches

from certify.campaign.commands import environment
from certify.errors import InfrastructureError, UsageError
from certify.json_text import load_json


def known_faults() -> dict[str, dict[str, object]]:
    """name -> {"summary", "side", "gates"}. Asked in a process of its own: the border between
    certify and the runner is a process, also for this."""
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
        faults: dict[str, dict[str, object]] = load_json(done.stdout)
    except ValueError:
        raise InfrastructureError(
            "the runner does not list its faults", where=done.stderr.strip()[-300:]
        ) from None
    return faults


def find_fault(name: str) -> tuple[str, str]:
    """(side, name) of a fault. Raises UsageError with near matches for an unknown one."""
    faults = known_faults()
    if name not in faults:
        near = get_close_matches(name, faults, n=3)
        raise UsageError(
            f"unknown fault {name!r}",
            where="--inject",
            expected=f"one of {', '.join(sorted(faults))}",
            hint=f"did you mean {near[0]}?" if near else None,
        )
    return str(faults[name]["side"]), name
