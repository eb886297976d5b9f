"""npu-smi and hccn_tool as programs: however much they print or however long they take."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from certify.environment.probes.devices import _MAX_OUTPUT, _run_all

if TYPE_CHECKING:
    from pathlib import Path


def test_endless_output_is_cut_and_its_program_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    start = time.monotonic()
    text = f"echo $$ > {pid}; while :; do printf '%4096s' x; done"
    result = _run_all({"endless": ["sh", "-c", text], "short": ["echo", "fine"]}, 8.0)
    assert len(result["endless"] or "") == _MAX_OUTPUT
    assert result["short"] == "fine\n"
    assert time.monotonic() - start < 300
    assert not _runs(int(pid.read_text()))


def test_no_answer_in_time_is_none_and_children_end_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = f"sleep 60 & echo $! > {pid}; echo half; sleep 60"
    start = time.monotonic()
    assert _run_all({"slow": ["sh", "-c", text]}, 0.6) == {"slow": None}
    assert time.monotonic() - start < 30
    assert not _runs(int(pid.read_text()))


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    assert "No such file" in (_run_all({"absent": [str(tmp_path / "x")]}, 1.0)["absent"] or "")


def _runs(pid: int) -> bool:
    """Whether a process is still at work (one that nobody reaped is not)."""
    for _ in range(20):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return False
            os.kill(pid, 0)
        except OSError:
            return False
        time.sleep(0.05)
    return True
