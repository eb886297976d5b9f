"""The command line as a whole: help, errors, exit codes, one JSON document."""

from __future__ import annotations

import json

import pytest

from certify.cli import commands, main
from certify.errors import EXIT_CODES


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, command in commands.COMMANDS.items():
        assert f"  {name}" in text
        assert command.summary in text
    for code in EXIT_CODES:
        assert f"{code:>3}  " in text


def test_no_command_is_a_usage_error_that_shows_the_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert "usage: certify COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(commands.COMMANDS))
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: certify {name}")
    assert len(text.splitlines()) > 5


def test_unknown_command_offers_a_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jugde"]) == 2
    assert "did you mean: judge" in capsys.readouterr().err


def test_a_defect_is_reported_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from certify.cli import judge

    monkeypatch.delenv("CERTIFY_DEBUG", raising=False)
    monkeypatch.setattr(judge, "run", lambda args: 1 / 0)
    assert main(["judge", "x", "--json"]) == 70
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["exit_code"] == 70
    assert "internal error in certify: ZeroDivisionError" in err
    assert "Traceback" not in err


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    from certify.cli import judge

    def interrupt(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(judge, "run", interrupt)
    assert main(["judge", "x"]) == 130
