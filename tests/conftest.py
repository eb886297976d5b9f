"""What all tests share: which parts of the suite this interpreter can run, and skips that a
continuous integration turns into failures."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = frozenset(filter(None, os.environ.get("CERTIFY_REQUIRE", "").split(",")))

# Folders whose modules import torch at their top.
collect_ignore: list[str] = []
if find_spec("torch") is None:
    if "torch" in REQUIRED:
        raise RuntimeError("CERTIFY_REQUIRE names torch, which is not installed")
    collect_ignore += ["runner", "reference_runs"]


def require(name: str, present: bool, reason: str) -> None:
    """Skip the test when a service is absent; fail instead when CERTIFY_REQUIRE names it."""
    if present:
        return
    if name in REQUIRED:
        pytest.fail(f"CERTIFY_REQUIRE names {name}, but {reason}")
    pytest.skip(reason)


@pytest.fixture
def shared() -> Path:
    """The folder of shared facts and public cases, which is not part of the project."""
    folder = Path(os.environ.get("CERTIFY_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the folder of public cases is not here")
    return folder
