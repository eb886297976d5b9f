"""One loaded matrix for all tests of the resolver."""

from __future__ import annotations

import pytest

from matrices.load import Matrix, load


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load()
