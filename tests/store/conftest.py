"""A fresh store in a temporary folder, and campaigns to put into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("alembic")

from certify.store import NewCampaign, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from certify.store.campaigns import Store


def new_campaign(campaign_id: str, **changes: str) -> NewCampaign:
    """A campaign to create; `changes` replaces fields."""
    fields = {
        "id": campaign_id,
        "recipe_id": "qwen3-235b-a22b-4k-fsdp2",
        "backend": "fsdp2",
        "scale": "tiny",
        "device": "cpu",
        "stage": "pretrain",
        "criteria_version": "v1",
        "criteria_sha256": "c" * 64,
        "key": "k1",
        "folder": f"/campaigns/{campaign_id}",
    }
    return NewCampaign(**{**fields, **changes})


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTIFY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CERTIFY_DATABASE", raising=False)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as opened:
        yield opened
