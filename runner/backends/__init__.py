"""Training backends. Adding one is one file with ``run(spec) -> int`` and one line here."""

from __future__ import annotations

BACKENDS = {
    "fsdp2": "runner.backends.fsdp2",
    "mcore": "runner.backends.mcore",
    "plain": "runner.backends.plain",
}
