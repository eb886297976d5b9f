"""A runner ends when the process that started the campaign is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from certify.errors import EXIT_INTERRUPTED
from runner import watchdog
from tests.runner.tiny import ROOT

pytestmark = pytest.mark.torch

WATCHED = "from runner import watchdog; import time; watchdog.start(); time.sleep(60)"


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_ends_with_its_parent_even_when_nobody_reaps_it() -> None:
    parent = sleeper()
    child = subprocess.Popen(
        [sys.executable, "-c", WATCHED],
        cwd=ROOT,
        env={**os.environ, watchdog.VARIABLE: str(parent.pid)},
    )
    try:
        time.sleep(4 * watchdog.INTERVAL_S)
        assert child.poll() is None
        parent.kill()  # and stays a zombie until it is waited for
        assert child.wait(timeout=20) == EXIT_INTERRUPTED
    finally:
        parent.kill()
        parent.wait()
        child.kill()
        child.wait()


def test_a_pid_that_was_given_to_another_process_counts_as_gone() -> None:
    assert not watchdog.is_gone(os.getpid(), watchdog.start_mark(os.getpid()))
    if watchdog.start_mark(os.getpid()) is not None:
        assert watchdog.is_gone(os.getpid(), "0")


def test_does_nothing_without_a_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "none"):
        monkeypatch.setenv(watchdog.VARIABLE, value)
        assert watchdog.start() is None
