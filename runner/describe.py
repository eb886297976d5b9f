"""``python -m runner.describe CONFIG.json``: what a configuration builds, as JSON on stdout.

The class, whether it is stock, its repeated blocks and experts as module patterns, and how its
published tensors differ from those in memory. Nothing is given storage.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from typing import TYPE_CHECKING, Any

from certify.errors import CertifyError, UsageError
from certify.runspec import ModelSpec
from runner import models
from runner.command import run_file
from runner.compat import model_class
from runner.modules import patterns
from runner.names import names_of

if TYPE_CHECKING:
    from pathlib import Path


def describe(hf_config: dict[str, Any]) -> dict[str, Any]:
    """Raises UsageError when no class can be built from the configuration."""
    try:
        model: Any = models.build(ModelSpec(hf_config, "", ""), hf_config)
    except CertifyError:
        raise
    except Exception as error:
        # A wrong value surfaces as whatever its first use in a class raises.
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"no model can be built: {first}",
            where=f"model_type {hf_config.get('model_type')!r}",
            expected="a configuration that its class accepts",
        ) from error
    kind, found, names = model_class(model), patterns(model), names_of(model)
    stock = kind.__module__.startswith("transformers.")
    own_lines = 0 if stock else len(inspect.getsource(inspect.getmodule(kind) or kind).splitlines())
    return {
        "class": kind.__name__,
        "module": kind.__module__,
        "stock": stock,
        "own_files": 0 if stock else 1,
        "own_lines": own_lines,
        "fsdp_modules": list(found.fsdp),
        "ep_modules": list(found.experts),
        "n_experts": found.n_experts,
        "renamed_tensors": len(names.renamed),
        "fused_tensors": len(names.fused),
    }


def _describe_and_say(path: Path) -> None:
    # Whatever libraries print belongs to stderr.
    with contextlib.redirect_stdout(sys.stderr):
        found = describe(json.loads(path.read_text("utf-8")))
    print(json.dumps(found))


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code (`runner.command`)."""
    return run_file("runner.describe", arguments, _describe_and_say, "CONFIG.json")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
