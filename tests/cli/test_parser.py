"""The parser of options: argparse in English, and gettext as it was for everybody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from certify.cli.parser import Parser
from certify.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def test_a_usage_error_has_our_form() -> None:
    parser = Parser(prog="certify x")
    parser.add_argument("--number", type=int)
    with pytest.raises(UsageError) as caught:
        parser.parse_args(["--number", "many"])
    assert "invalid int value: 'many'" in str(caught.value)
    assert "hint: certify x --help" in str(caught.value)


def test_gettext_is_the_real_one_afterwards() -> None:
    code = (
        "import sys; import certify.cli.parser; assert 'gettext' not in sys.modules\n"
        "import gettext; print(gettext.__file__, gettext.ngettext('one', 'many', 2))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    path, word = done.stdout.split()
    assert path.endswith("gettext.py")
    assert word == "many"
