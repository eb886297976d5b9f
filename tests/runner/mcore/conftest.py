"""Runs that several tests read. Each is one process of the backend."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require

if TYPE_CHECKING:
    from tests.runner.mcore.tiny import Run


@pytest.fixture(scope="session")
def megatron() -> None:
    """Skip where megatron-core is missing (fail where CERTIFY_REQUIRE names it)."""
    try:
        found = version("megatron-core")
    except PackageNotFoundError:
        found = ""
    require("megatron", bool(found), "megatron-core is not installed")


@pytest.fixture(scope="session")
def moe(megatron: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """qwen3_moe, 30 steps, auxiliary loss, every artefact."""
    from tests.runner.mcore import tiny

    folder = tmp_path_factory.mktemp("moe")
    spec = tiny.make_spec(folder, tiny.hf_config("qwen3_moe"), 30, aux_loss_coef=1e-2)
    return tiny.start(spec)


@pytest.fixture(scope="session")
def masked(megatron: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Dense qwen3, unequal micro-batches: two of them, with a loss mask."""
    from tests.runner.mcore import tiny

    folder = tmp_path_factory.mktemp("masked")
    config = tiny.hf_config("qwen3")
    return tiny.start(tiny.make_spec(folder, config, 6, mask=True, micro_batch=2))
