"""Which product family a chip or server name belongs to.

Families: ``910`` (first generation), ``A2`` (910B), ``A3`` (910_93), ``950``, ``310P``, ``310B``,
``310``; None for a name that none of them claims. The rules are those of the npu-smi tables: a
plain ``910B`` with DDR beside 32 GB of HBM is the first generation, ``Ascend910`` with a physical
id column is A3.
"""

from __future__ import annotations

import re

from certify.light import lazy

FAMILIES = ("910", "A2", "A3", "950", "310P", "310B", "310")

_CHIP = lazy(
    r"(?:ascend[ _-]?)?(910_?93\d*|910_?c|910_95\w*|950(?:pr|dt)?|910b\d?c?(?:-\d)?|910_9\d+"
    r"|910[a-z]*|310p\d?|310b\d?|310)",
    re.I,
)
_SERVER = lazy(r"\b(?:atlas\s*)?(?:\d{3,4}\s*(?:[TI]|RC?)?\s*)?(A2|A3|A5)\b", re.I)


def chip_family(name: str, *, ddr_mb: int | None = None, hbm_mb: int | None = None) -> str | None:
    """The family of a chip name as npu-smi, an SoC string or a person writes it.

    ddr_mb, hbm_mb: totals of the npu-smi row, which tell a first-generation ``910B`` from A2.
    """
    words = name.strip(" `'\",").split()
    first = "".join(words[:2]) if words[:1] and words[0].lower() == "ascend" else "".join(words[:1])
    match = _CHIP.fullmatch(first)
    if not match:
        return None
    chip = match.group(1).lower().replace("_", "")
    if chip.startswith(("950", "91095")):
        return "950"
    if chip.startswith(("9109", "910c")):
        return "A3"
    if chip == "910b" and ddr_mb and (hbm_mb is None or hbm_mb <= 32768):
        return "910"
    if chip.startswith("910b"):
        return "A2"
    if chip.startswith("910"):
        return "910"
    for family in ("310P", "310B"):
        if chip.startswith(family.lower()):
            return family
    return "310"


def server_family(text: str) -> str | None:
    """The family named by a server or generation word (Atlas 800T A2, A3, A5)."""
    match = _SERVER.search(text)
    if not match:
        return None
    word = match.group(1).upper()
    return "950" if word == "A5" else word
