"""Groups of processes: outcomes, and that nothing survives a failure or an interrupt."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from certify.campaign.processes import Job, descendants, run_group
from certify.errors import InfrastructureError

# A parent with a grandchild in a session of its own, as torchrun's workers are.
NESTED = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                         start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


def job(tmp_path: Path, name: str, code: str) -> Job:
    return Job(name, (sys.executable, "-c", code), tmp_path, tmp_path / f"{name}.log")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def wait_for(path: Path) -> str:
    for _ in range(200):
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.05)
    raise AssertionError(f"{path} stayed empty")


def test_outcomes_in_order_with_their_times(tmp_path: Path) -> None:
    burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    ticks = []
    outcomes = run_group(
        [job(tmp_path, "a", burn), job(tmp_path, "b", "print('hello')")], lambda: ticks.append(1)
    )
    assert [(o.name, o.exit_code) for o in outcomes] == [("a", 0), ("b", 0)]
    assert outcomes[0].cpu_s >= 0.3
    assert outcomes[0].wall_s >= 0.3
    assert (tmp_path / "b.log").read_text() == "hello\n"
    assert ticks


def test_one_failure_ends_the_others_and_their_children(tmp_path: Path) -> None:
    fail = "import time; time.sleep(1.0); raise SystemExit(4)"
    outcomes = run_group(
        [job(tmp_path, "nested", NESTED), job(tmp_path, "fails", fail)], lambda: None
    )
    grandchild = int((tmp_path / "nested.log").read_text())
    assert {o.name: o.exit_code for o in outcomes}["fails"] == 4
    assert {o.name: o.exit_code for o in outcomes}["nested"] == -signal.SIGTERM
    assert not alive(grandchild)


def test_an_interrupt_leaves_no_orphan(tmp_path: Path) -> None:
    pids: list[int] = []

    def interrupt() -> None:
        wait_for(tmp_path / "nested.log")
        wait_for(tmp_path / "stubborn.log")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_group(
            [job(tmp_path, "nested", NESTED), job(tmp_path, "stubborn", STUBBORN)],
            lambda: None,
            lambda _, pid: pids.append(pid),
        )
    grandchild = int((tmp_path / "nested.log").read_text())
    assert len(pids) == 2
    assert not any(map(alive, [*pids, grandchild]))


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    missing = Job("x", ("/no/such/program",), tmp_path, tmp_path / "x.log")
    with pytest.raises(InfrastructureError, match="cannot start x"):
        run_group([missing], lambda: None)


def test_descendants_of_this_process() -> None:
    import subprocess

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"]) as child:
        try:
            assert child.pid in descendants(os.getpid())
        finally:
            child.kill()
