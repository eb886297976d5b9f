"""Whether a process lives: pid reuse, reboots, zombies, other hosts and containers."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time

import pytest

from certify.store import process
from certify.store.process import Process, host_hash, identify, is_alive

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")


def test_this_process_lives():
    assert is_alive(identify()) is True


def test_an_ended_process_does_not():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(child.pid)
    assert is_alive(identity) is True
    child.stdin.close()
    # It has ended but was not waited for: a zombie runs nothing.
    until = time.monotonic() + 10
    while is_alive(identity) and time.monotonic() < until:
        time.sleep(0.01)
    assert is_alive(identity) is False
    child.wait()
    assert is_alive(identity) is False


def test_the_start_time_tells_a_used_again_pid():
    boot, namespace, ticks = identify().start.split(" ")
    earlier = Process(host_hash(), os.getpid(), f"{boot} {namespace} {int(ticks) - 5}")
    assert is_alive(earlier) is False


def test_before_a_reboot():
    _, namespace, ticks = identify().start.split(" ")
    assert is_alive(Process(host_hash(), os.getpid(), f"another {namespace} {ticks}")) is False


def test_another_container_or_host_is_not_known():
    boot, _, ticks = identify().start.split(" ")
    assert is_alive(Process(host_hash(), os.getpid(), f"{boot} pid:[1] {ticks}")) is None
    assert is_alive(dataclasses.replace(identify(), host="0" * 16)) is None


def test_a_command_name_with_blanks_and_parentheses(tmp_path, monkeypatch):
    (tmp_path / "7").mkdir()
    fields = " ".join(str(number) for number in range(4, 60))
    (tmp_path / "7" / "stat").write_text(f"7 (a) b ) S {fields}\n")
    monkeypatch.setattr(process, "PROC", tmp_path)
    # Field 22 of proc(5) is the start time.
    assert process._state_and_ticks(7) == ("S", "22")


def test_without_proc_a_signal_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PROC", tmp_path)
    assert identify().start == ""
    assert is_alive(identify()) is True
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert is_alive(Process(host_hash(), child.pid, "")) is False


def test_the_host_hash_discloses_no_name():
    assert len(host_hash()) == 16
    assert set(host_hash()) <= set("0123456789abcdef")
    assert os.uname().nodename not in host_hash()
