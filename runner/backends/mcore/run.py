"""Entry point of the backend: opens the journal, then hands over to `train`.

megatron is imported late: the record file must exist before anything can fail, and on a CPU the
compatibility of `cpu` must come first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from certify.errors import UsageError
from runner.backends.mcore import limits, versions
from runner.device import Device
from runner.journal import journal

if TYPE_CHECKING:
    from certify.runspec import RunSpec


def run(spec: RunSpec) -> int:
    """Train one run to its last step. Returns 0.

    Raises CertifyError for what the user can correct, after an End record with the reason.
    """
    with journal(spec) as book:
        if book.world_size != 1:
            raise UsageError(
                f"the mcore backend was started with {book.world_size} processes",
                where="WORLD_SIZE",
                expected="1",
                hint="start it with `python -m runner SPEC.json`, without torchrun",
            )
        limits.check(spec)
        versions.require_supported()
        device = Device(spec.device, int(os.environ.get("LOCAL_RANK", "0")))
        device.configure(spec.deterministic, spec.threads)
        if device.name == "cpu":
            from runner.backends.mcore import cpu

            cpu.apply()
        from runner.backends.mcore import train

        train.train(spec, book, device)
    return 0
