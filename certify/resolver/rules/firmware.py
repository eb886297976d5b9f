"""Driver and firmware against what their own version files declare about each other.

The driver's file names the firmware that it works with, the firmware's file the drivers. Of the
two the newer one knows the older one: it is enough that one of them names the other.
"""

from __future__ import annotations

from certify.light import lazy
from certify.resolver.findings import ERROR, WARNING, Finding
from certify.versions import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts

_RANGE = lazy(r"\[\s*([\w.]{1,40}?)\s*,\s*([\w.]{1,40}?)\s*\]")


def check(facts: Facts) -> Iterable[Finding]:
    """An error where a file excludes the other part and no newer file contradicts it."""
    driver, firmware = facts.version("driver"), facts.version("firmware")
    if driver is None or firmware is None:
        return
    wanted, where = _declared(facts, "driver", driver, "firmware_range")
    listed, other = _declared(facts, "firmware", firmware, "driver_range")
    takes = in_ranges("dotted", wanted, firmware)
    taken = in_ranges("hdk", listed, driver)
    if takes or taken or (takes is None and taken is None):
        return
    # A firmware cannot know the drivers that came after it: its word alone is a doubt.
    known = takes is not None or _older(driver, listed)
    yield Finding(
        "cann-driver", ERROR if known else WARNING, "firmware", "firmware-out-of-range",
        {
            "driver": driver, "firmware": firmware,
            "wanted": wanted if takes is not None else "?",
            "listed": listed if taken is not None else "?",
            "need": f"firmware {wanted}" if takes is not None else f"driver {listed}",
        },
        where if takes is not None else other,
    )  # fmt: skip


def _declared(facts: Facts, name: str, version: str, key: str) -> tuple[str, str]:
    """What the file of the part in force declares, and where it stands."""
    for found in facts.stack.components.get(name, ()):
        if found.detail.get(key) and found.version.lower() == version.lower():
            return found.detail[key], found.source
    return "", ""


def in_ranges(family: str, declared: str, text: str) -> bool | None:
    """Whether a version lies in ``[low,high],[low,high]``; None when nothing can be compared.

    An upper bound takes everything that begins with it; ``25.0.`` is the upper bound of all 25.0.
    """
    answer: bool | None = None
    for low, high in _RANGE.findall(declared):
        if (text.lower() + ".").startswith(high.rstrip(".").lower() + "."):
            return True
        bounds = parse(family, low.rstrip(".")), parse(family, high.rstrip("."))
        version = parse(family, text)
        if version is None or bounds[0] is None or bounds[1] is None:
            continue
        answer = False
        if bounds[0] <= version <= bounds[1]:
            return True
    return answer


def _older(driver: str, listed: str) -> bool:
    """Whether the driver is older than every one that the firmware lists."""
    version = parse("hdk", driver)
    lows = [parse("hdk", low.rstrip(".")) for low, _ in _RANGE.findall(listed)]
    return version is not None and all(low is not None and version < low for low in lows)
