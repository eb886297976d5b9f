"""JSON from files and processes: what is nested too deeply is an error like any other bad text."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100


def load_json(text: str | bytes) -> Any:
    """A JSON value of at most `DEEPEST` levels, so that what walks it needs no care.

    Raises ValueError.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for holder in level
            if isinstance(holder, (dict, list))
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


_TOO_DEEP = f"nested more than {DEEPEST} levels deep"
