"""The end of a process of the runner."""

from __future__ import annotations

import multiprocessing
import os
import sys


def leave(exit_code: int) -> None:
    """End this process now, without the interpreter's own end, which can wait for ever for
    threads of torch and megatron. Processes that these started end with it."""
    for child in multiprocessing.active_children():
        child.terminate()
        child.join(5)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
