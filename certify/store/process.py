"""Whether the process that runs a campaign still lives, and the hash that names a host.

A pid alone says little: pids are used again, and mean nothing in another container or after a
reboot. A process is therefore named by host, boot, pid namespace, pid and start time.
"""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """start: ``BOOT_ID PID_NAMESPACE START_TICKS``, or empty on a system without /proc."""

    host: str
    pid: int
    start: str


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def host_hash() -> str:
    """16 hex digits that name this machine without disclosing its id.

    Containers on one machine that share its machine id share the hash.
    """
    known = _read(Path("/etc/machine-id")) or _read(Path("/var/lib/dbus/machine-id"))
    return hashlib.sha256(f"ascend-certify host {known or platform.node()}".encode()).hexdigest()[
        :16
    ]


def _boot_and_namespace() -> tuple[str, str]:
    try:
        namespace = os.readlink(PROC / "self" / "ns" / "pid")
    except OSError:
        namespace = ""
    return _read(PROC / "sys" / "kernel" / "random" / "boot_id"), namespace


def _state_and_ticks(pid: int) -> tuple[str, str] | None:
    """State letter and start time (clock ticks since boot) of a process, None if not visible."""
    # The command name is in parentheses and may itself hold any character: split after the last.
    fields = _read(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else None


def identify(pid: int | None = None) -> Process:
    """The identity of a process of this host, by default of the calling one."""
    number = os.getpid() if pid is None else pid
    found = _state_and_ticks(number)
    if found is None:
        return Process(host_hash(), number, "")
    boot, namespace = _boot_and_namespace()
    return Process(host_hash(), number, f"{boot} {namespace} {found[1]}")


def _answers(pid: int) -> bool | None:
    """Whether a pid exists, by signal 0; None where this cannot be asked."""
    if os.name != "posix":
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it belongs to another user
    return True


def is_alive(process: Process) -> bool | None:
    """True or False where it can be known from here; None for another host or container."""
    if process.host != host_hash():
        return None
    recorded = process.start.split(" ")
    if len(recorded) != 3:
        return _answers(process.pid)
    boot, namespace = _boot_and_namespace()
    if recorded[0] != boot:
        return False
    if recorded[1] != namespace:
        return None
    found = _state_and_ticks(process.pid)
    if found is None:
        return _answers(process.pid)
    return found[1] == recorded[2] and found[0] not in ("Z", "X")
