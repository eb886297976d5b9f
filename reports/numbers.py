"""Numbers, times and sizes as people read them; the same everywhere on a page. Pure."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MINUS, NONE = "−", "–"


def plain(value: object, digits: int = 4) -> str:
    """A number with its significant digits, without unit; text stays as it is.

    Integers are grouped by commas; small and large numbers are written times a power of ten.
    """
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", MINUS)
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        # Digits after the point that distinguish 0.9999987 from 1 are significant.
        text = f"{value:.7f}".rstrip("0").rstrip(".") if 0.99 < value < 1 else f"{value:.{digits}g}"
        if "e" in text:
            text = f"{value:,.0f}"
        return text.replace("-", MINUS)
    mantissa, exponent = f"{value:.{max(digits - 2, 0)}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    if mantissa in ("1", "-1"):
        return f"{mantissa[:-1]}{power}".replace("-", MINUS)
    return f"{mantissa}×{power}".replace("-", MINUS)


def power(value: float) -> str:
    """A power of ten, or 0, as on a logarithmic scale."""
    if value == 0:
        return "0"
    exponent = str(round(math.log10(abs(value)))).translate(_SUPERSCRIPT)
    return f"{MINUS if value < 0 else ''}10{exponent}"


def interval(low: object, high: object) -> str:
    """``low … high``, or the dash for none."""
    if low is None and high is None:
        return NONE
    return f"{plain(low)} … {plain(high)}"


def seconds(value: float) -> str:
    """A duration: ``9.4 s``, ``2 min 41 s``, ``3 h 05 min``."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: int) -> str:
    """Bytes: ``812 B``, ``164 kB``, ``1.2 MB``."""
    if count < 1000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1000:.0f} kB"
    return f"{count / 1e6:.1f} MB"


def moment(unix_s: float) -> str:
    """A time in UTC: ``2026-11-30 22:00 UTC``; the dash for an unknown one."""
    if not 0 < unix_s < 1e11:
        return NONE
    return datetime.fromtimestamp(unix_s, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
