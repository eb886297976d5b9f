"""Small arithmetic shared by the comparisons.

What could not be computed is None. What came out as NaN or infinite stays so: a record that hid
it would read as missing evidence, and not as the fault it is.
"""

from __future__ import annotations

import math

Value = float | int | None


def ratio(part: float, whole: float) -> float:
    """part / whole; 0 for 0 / 0, infinite for anything else over 0."""
    if whole == 0.0:
        return 0.0 if part == 0.0 else math.nan if math.isnan(part) else math.inf
    return part / whole


def relative_difference(candidate: float, reference: float) -> float:
    """``|candidate - reference| / |reference|``."""
    return ratio(abs(candidate - reference), abs(reference))
