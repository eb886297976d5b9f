"""Versions: grammars and order (`grammar`), claims about them (`specs`), free spellings (`text`).

``parse(family, raw)`` reads a version or answers None, ``matches(family, spec, version)`` applies
a specification such as ``8.3.RCX`` or ``>=3.10,<3.13``, ``from_free_text(family, text)`` finds a
version in what a person wrote. Families: see `certify.versions.grammar`.
"""

from certify.versions.grammar import FAMILIES, Version, core_line, parse, release
from certify.versions.specs import Spec, SpecError, matches, parse_spec
from certify.versions.text import from_free_text

__all__ = [
    "FAMILIES",
    "Spec",
    "SpecError",
    "Version",
    "core_line",
    "from_free_text",
    "matches",
    "parse",
    "parse_spec",
    "release",
]
