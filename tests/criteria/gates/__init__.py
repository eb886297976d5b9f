"""One file per gate: tables of what was done to the records and what the gate says then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.criteria.synthetic import Campaign

Row = tuple[Callable[[Campaign], Any], str, str]


def expect(gate: str, row: Row, campaign: Campaign | None = None) -> None:
    """row: what spoils the campaign, the verdict of the gate, and a part of its reason."""
    spoil, verdict, reason = row
    campaign = campaign or Campaign()
    spoil(campaign)
    result = campaign.gate(gate)
    assert result.verdict == verdict, result.reason
    assert reason in result.reason
