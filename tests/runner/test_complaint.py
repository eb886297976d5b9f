"""An error of the runner begins a line of the log."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.runner.tiny import ROOT

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("module", ["runner.__main__", "runner.prepare", "runner.compare"])
def test_an_error_stands_on_a_line_of_its_own(module: str) -> None:
    """Behind a prompt that some library left without a newline, on either stream."""
    code = (
        "import importlib, sys\n"
        "print('Do you agree? [y/N] ', end='')\n"
        f"sys.exit(importlib.import_module({module!r}).main(['/absent/spec.json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout.startswith("Do you agree?")
    assert re.search("^error: .*\\n  where: /absent/spec.json", done.stdout, re.MULTILINE)
