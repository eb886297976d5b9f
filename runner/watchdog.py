"""Ends this process when the one that started the campaign is gone, so that none is orphaned."""

from __future__ import annotations

import os
import threading
import time

from certify.errors import EXIT_INTERRUPTED

VARIABLE = "CERTIFY_PARENT_PID"
# Set where a process must not outlive the agent that started it.
WITH_LAUNCHER = "CERTIFY_END_WITH_LAUNCHER"
INTERVAL_S = 0.5


def is_gone(pid: int, started: str | None) -> bool:
    """Whether a process has ended. started: what `start_mark` said earlier (None: unknown).

    A zombie has ended, and a process of the same number that started at another time is another.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    state = _stat(pid)
    if state is None:
        return False
    return state[0] in "ZX" or (started is not None and state[1] != started)


def start_mark(pid: int) -> str | None:
    """When a process started, in kernel ticks; None where the kernel does not say."""
    state = _stat(pid)
    return state[1] if state else None


def _stat(pid: int) -> tuple[str, str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The second field is the name in parentheses, and may hold spaces itself.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def start() -> threading.Thread | None:
    """Watch the process named by CERTIFY_PARENT_PID from a daemon thread; None without one."""
    value = os.environ.get(VARIABLE, "")
    if not value.isdigit():
        return None
    watched = {int(value)} | ({os.getppid()} if os.environ.get(WITH_LAUNCHER) else set())
    started = {pid: start_mark(pid) for pid in watched}

    def watch() -> None:
        while not any(is_gone(pid, mark) for pid, mark in started.items()):
            time.sleep(INTERVAL_S)
        # Not sys.exit: the main thread may be inside a collective that will never return.
        os._exit(EXIT_INTERRUPTED)

    thread = threading.Thread(target=watch, name="parent-watchdog", daemon=True)
    thread.start()
    return thread
