"""Asks the runner what a configuration builds: only it may import torch and transformers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign.commands import environment
from certify.errors import EXIT_USAGE, InfrastructureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_S = 300


def described(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What ``python -m runner.describe`` says of a configuration. where: for messages.

    Raises UsageError when no class can be built from it.
    """
    with tempfile.TemporaryDirectory(prefix="certify-describe-") as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(dict(config)), encoding="utf-8")
        command = [sys.executable, "-m", "runner.describe", str(path)]
        try:
            done = subprocess.run(
                command, env=_environment(), capture_output=True, text=True, timeout=PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            raise InfrastructureError(
                f"the model was not built within {PATIENCE_S} s", where=where
            ) from None
    if done.returncode == 0:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    what = said[0].removeprefix("error: ") if said else "the model cannot be described"
    if done.returncode == EXIT_USAGE:
        raise UsageError(what, where=where, hint="certify check-env names installed versions")
    raise InfrastructureError(what, where=where, expected="python -m runner.describe to succeed")


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, **environment(threads=1)}
