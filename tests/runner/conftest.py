"""Fixtures of the runner's tests."""

from __future__ import annotations

import pytest

from tests.runner.tiny import Prepared, prepare


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A tiny Qwen3-MoE with weights, samples, mask and probe."""
    return prepare(tmp_path_factory.mktemp("prepared"))
