"""A checkout in upstream's layout, with scripts of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes import scripts


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Root of a checkout with one Megatron-style script and one FSDP2 script with its YAML."""
    fsdp2 = tmp_path / "examples/fsdp2/small"
    mcore = tmp_path / "examples/mcore/small"
    fsdp2.mkdir(parents=True)
    mcore.mkdir(parents=True)
    (fsdp2.parent / "env_config.sh").write_text(scripts.FSDP2_ENV)
    (fsdp2 / "pretrain_small_4k_fsdp2_A3.sh").write_text(scripts.FSDP2)
    (fsdp2 / "pretrain_small_4k_fsdp2_A3.yaml").write_text(scripts.FSDP2_YAML)
    (mcore / "pretrain_small_4k_ptd.sh").write_text(scripts.MEGATRON)
    return tmp_path
