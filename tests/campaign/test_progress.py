"""Progress: reading a growing record file, and one line for people."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from certify.campaign.progress import Progress, StepTail, duration, phase_line

STEP = '{"kind": "step", "step": %d, "loss": %s}\n'


def test_tail_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.jsonl"
    tail = StepTail(path)
    tail.poll()
    assert (tail.step, tail.loss) == (0, None)
    path.write_text('{"kind": "header"}\n' + STEP % (1, "6.5") + (STEP % (2, "6.25"))[:-5])
    tail.poll()
    assert (tail.step, tail.loss) == (1, 6.5)
    with path.open("a") as file:
        file.write((STEP % (2, "6.25"))[-5:])
    tail.poll()
    assert (tail.step, tail.loss) == (2, 6.25)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.4, "59s"), (95, "1m35s"), (3661, "1h01m"), (-3, "0s")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_line_tells_step_loss_and_time_left(tmp_path: Path) -> None:
    tail = StepTail(tmp_path / "x", step=50, loss=4.25)
    line = phase_line("candidate", [tail], 1, 200, time.monotonic() - 10.0, 60.0)
    assert line.split() == ["candidate", "step", "50/200", "loss", "4.2500", "30s", "left,",
                            "1m30s", "in", "all"]  # fmt: skip


def test_the_slowest_of_two_runs_is_shown(tmp_path: Path) -> None:
    tails = [StepTail(tmp_path / "a", 90, 1.0), StepTail(tmp_path / "b", 10, 2.0)]
    assert "step 10/200  loss 2.0000" in phase_line("reference", tails, 1, 200, 0.0, 0.0)


def test_without_a_terminal_lines_are_plain_and_rare() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.begin()
    for _ in range(100):
        progress.update("step")
    progress.say("done")
    assert stream.getvalue() == "done\n"
    assert "\x1b" not in stream.getvalue()


def test_quiet_says_nothing() -> None:
    stream = io.StringIO()
    Progress(stream, quiet=True).say("x")
    assert stream.getvalue() == ""
