"""How a run ends in its records, and what the entry point answers."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from certify.errors import (
    EXIT_INFRASTRUCTURE,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    CannotJudgeError,
)
from certify.records import End, read_run
from certify.runspec import write_spec
from runner import __main__ as entry
from runner.backends import fsdp2
from tests.runner.tiny import Prepared

pytestmark = pytest.mark.torch

ENDINGS: list[tuple[BaseException, int, tuple[str, str] | None]] = [
    (CannotJudgeError("no such thing"), 3, ("failed", "no such thing")),
    (KeyboardInterrupt(), EXIT_INTERRUPTED, ("stopped", "interrupted")),
    (ZeroDivisionError("oops"), EXIT_INTERNAL, ("failed", "ZeroDivisionError: oops")),
    (OSError(errno.ENOSPC, "No space left"), EXIT_INFRASTRUCTURE, None),
    (OSError(errno.EACCES, "denied"), EXIT_INTERNAL, ("failed", "denied")),
]


@pytest.mark.parametrize(("failure", "code", "ending"), ENDINGS)
def test_a_run_that_fails_says_so_in_records_and_exit_code(
    failure: BaseException,
    code: int,
    ending: tuple[str, str] | None,
    prepared: Prepared,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise failure

    for name in ("RANK", "WORLD_SIZE", "CERTIFY_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fsdp2, "Device", fail)
    spec = prepared.spec("x", ranks=1, run_dir=str(tmp_path))
    write_spec(spec, tmp_path / "spec.json")
    assert entry.main([str(tmp_path / "spec.json")]) == code
    ends = read_run(tmp_path)[0].of(End)
    if ending is None:
        assert ends == []
    else:
        assert ends[0].status == ending[0]
        assert ending[1] in ends[0].reason


def test_the_command_line_is_checked(
    prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main([]) == EXIT_USAGE
    write_spec(prepared.spec("x", backend="fsdp3"), tmp_path / "spec.json")
    assert entry.main([str(tmp_path / "spec.json")]) == EXIT_USAGE
    message = capsys.readouterr().err
    assert "unknown backend 'fsdp3'" in message
    assert "expected: fsdp2, mcore" in message
    assert entry.main([str(tmp_path / "absent.json")]) == EXIT_USAGE
