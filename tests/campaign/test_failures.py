"""From a failed process to one message that names the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from certify.campaign.failures import failed_phase
from certify.campaign.layout import Layout
from certify.campaign.processes import Outcome
from certify.errors import InfrastructureError, UsageError
from certify.records import End, Header, Writer, rank_file

OURS = """torchrun says something
error: reduce-scatter over fsdp is wrong
  where: gloo
  expected: [1.0, 2.0]

hint: use another backend
E1130 torch.distributed.elastic ... ChildFailedError
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def write(layout: Layout, rank: int, end: End | None) -> None:
    writer = Writer(
        rank_file(layout.run("r"), rank), Header("r", "candidate", "fsdp2", rank, 2, 1, 0.0)
    )
    if end is not None:
        writer.write(end)
    writer.close()


def log(layout: Layout, text: str) -> None:
    layout.log("r").parent.mkdir(parents=True, exist_ok=True)
    layout.log("r").write_text(text)


def failed(code: int) -> Outcome:
    return Outcome("candidate", code, 1.0, 1.0)


def test_our_own_message_is_taken_over_whole(layout: Layout) -> None:
    log(layout, OURS)
    write(layout, 0, End("failed", 0, 1, 1, "reduce-scatter", 4))
    error = failed_phase(failed(1), layout, "r")
    assert isinstance(error, InfrastructureError)
    assert error.what == "candidate: reduce-scatter over fsdp is wrong"
    assert (error.where, error.expected) == ("gloo", "[1.0, 2.0]")
    assert error.hint == "use another backend"


def test_the_exit_code_behind_the_launcher_decides_the_kind(layout: Layout) -> None:
    log(layout, OURS)
    write(layout, 0, End("failed", 0, 1, 1, "bad key", 2))
    assert isinstance(failed_phase(failed(1), layout, "r"), UsageError)


def test_the_rank_that_was_killed_is_named_not_the_one_that_lost_it(layout: Layout) -> None:
    log(layout, "RuntimeError: Connection closed by peer\n")
    write(layout, 0, End("failed", 5, 1, 1, "RuntimeError: Connection closed by peer", 70))
    write(layout, 1, None)
    error = failed_phase(failed(1), layout, "r")
    assert "rank 1 ended without a word" in error.what
    assert error.where == str(layout.log("r"))


def test_a_crash_quotes_the_exception(layout: Layout) -> None:
    log(layout, "Traceback (most recent call last):\n  ...\nModuleNotFoundError: No module 'x'\n")
    error = failed_phase(failed(70), layout, "r")
    assert error.what == "candidate ended with code 70: ModuleNotFoundError: No module 'x'"


def test_a_signal_is_named_and_a_missing_log_is_no_trouble(layout: Layout) -> None:
    assert "SIGKILL" in failed_phase(failed(-9), layout, "r").what
