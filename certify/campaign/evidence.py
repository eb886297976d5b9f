"""What a campaign leaves for others to check: the host's stack, the signed plan, the bundle."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from certify.evidence.bundle import fix_plan, write_bundle
from certify.evidence.keys import signing_key

if TYPE_CHECKING:
    from pathlib import Path

    from certify.campaign.layout import Layout


def write_environment(layout: Layout) -> None:
    """Write ``environment.json``: the stack of this host as `certify lock` states it. Programs
    are not run: device tools can hang on a broken host, and files say what is installed."""
    from certify.campaign.files import write_atomic
    from certify.environment.probes import inspect
    from certify.lock import lock_of, to_text

    write_atomic(layout.environment, to_text(lock_of(inspect("/", tools=False))))


def sign_plan(layout: Layout, campaign: str) -> None:
    """State when the plan was fixed, signed when a key is configured."""
    fix_plan(layout.root, campaign, time.time(), signing_key())


def bundle(layout: Layout) -> tuple[Path, str]:
    """Write the bundle of a judged campaign; returns its path and sha256."""
    return write_bundle(layout.root, signing_key())
