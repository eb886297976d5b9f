"""JSON that is nested beyond reason ends every reader with one clear error, exit 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.cli import main
from certify.json_text import DEEPEST, load_json

if TYPE_CHECKING:
    from pathlib import Path

DEEP = {
    "lists": "[" * 200_000 + "]" * 200_000,
    "objects": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "within a document": ('{"schema": "certify.lock/1", "x": ' + "[" * 300 + "]" * 300 + "}"),
}


@pytest.mark.parametrize("command", [["check-env", "--merge"], ["lock", "--check"]])
@pytest.mark.parametrize("name", DEEP)
def test_deep_json_is_a_usage_error(
    name: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deep.json"
    path.write_text(DEEP[name])
    assert main([*command, str(path)]) == 2
    shown = capsys.readouterr()
    assert "nested more than" in shown.out + shown.err
    assert "Traceback" not in shown.err


def test_levels_up_to_the_limit_are_read() -> None:
    assert load_json("[" * DEEPEST + "]" * DEEPEST)
    with pytest.raises(ValueError, match="nested"):
        load_json("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))
