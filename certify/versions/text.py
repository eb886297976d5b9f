"""Versions as people type them: ``cann8.3rc1``, ``CANN：8.0.RC2.2``, ``torch-npu-2.10.post4``."""

from __future__ import annotations

from certify.light import lazy
from certify.versions.grammar import Version, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_START = r"(?<![\d.])v?"
# A release number, then whatever of the family's suffixes follows, with loose separators.
_SEARCH = {
    "cann": lazy(
        _START + r"(?P<a>\d{1,2}\.\d{1,2})(?:\.?(?P<kind>rc|t)[.\s]?(?P<n>\d+)|\s+rc\s?(?P<n2>\d+)"
        r"|\.(?P<z>\d{1,2}))?(?:\.(?P<p>\d{1,2}))?(?![\d])"
        r"(?:[.\-\s]?(?P<stage>alpha|beta)[.\-]?(?P<s>\d*))?(?:\.b(?P<b>\d+))?"
    ),
    "hdk": lazy(
        _START + r"(?P<a>\d{1,2}\.\d{1,2})(?:[.\s]?(?P<kind>rc)\s?(?P<n>\d+)(?P<n2>)"
        r"|\.(?P<z>\d{1,2}))?(?:\.(?P<p>\d{1,3}))?(?![\d])(?:\.b(?P<b>\d+))?(?P<stage>)(?P<s>)"
    ),
    "pep440": lazy(
        _START + r"(?P<a>\d+(?:\.\d+)+)(?:[.\-_]?(?P<stage>alpha|beta|a|b|rc)[.\-]?(?P<s>\d+))?"
        r"(?:[.\-_]?post[.\-_]?(?P<p>\d+))?(?:[.\-_]?dev[.\-_]?(?P<n>\d+))?"
        r"(?P<b>\+[a-z0-9.]+)?"
    ),
    "dotted": lazy(_START + r"(?P<a>\d+(?:\.\d+)+)"),
}
_SEARCH["product"] = _SEARCH["cann"]
_SEARCH["python"] = _SEARCH["pep440"]
_LONGEST = 400


def from_free_text(family: str, text: str) -> Version | None:
    """The first version of this family in a piece of text, None when there is none.

    ``raw`` of the answer is the usual spelling of the family (8.3.RC1, 24.1.rc3, 2.10.0.post4),
    not the text: whoever needs the words keeps them. A torch_npu or torch release of two numbers
    gets its third, because no such wheel has two. Raises KeyError for an unknown family.
    """
    shown = text[:_LONGEST].strip()
    if not shown.isascii():
        from unicodedata import normalize

        shown = normalize("NFKC", text[:_LONGEST]).strip()
    plain = shown.lower()
    whole = parse(family, plain)
    search = _SEARCH.get(family)
    if search is None:
        return None if whole is None else Version(family, shown, whole.key)
    found = search.search(plain)
    if not found:
        return None
    spelling = _SPELL[family](found.groupdict())
    version = parse(family, spelling)
    return None if version is None else Version(family, spelling, version.key)


def _spell_release(part: dict[str, str | None], candidate: str) -> str:
    number = part["n"] or part["n2"]
    if number:
        kind = candidate if (part["kind"] or "rc") == "rc" else "T"
        text = f"{part['a']}.{kind}{number}"
    else:
        text = f"{part['a']}.{part['z'] or 0}"
    if part["p"]:
        text += f".{part['p']}"
    if part["stage"]:
        new = not number and int((part["a"] or "0").partition(".")[0]) >= 9
        joint = ("-", ".") if new else (".", "")
        text += f"{joint[0]}{part['stage']}" + (f"{joint[1]}{part['s']}" if part["s"] else "")
    return text + (f".B{part['b']}" if part["b"] else "")


def _spell_hdk(part: dict[str, str | None]) -> str:
    return _spell_release(part, "rc").replace(".B", ".b")


def _spell_pep440(part: dict[str, str | None]) -> str:
    text = part["a"] or ""
    if text.count(".") == 1:
        text += ".0"
    text += f"{part['stage']}{part['s']}" if part["stage"] else ""
    text += f".post{part['p']}" if part["p"] else ""
    text += f".dev{part['n']}" if part["n"] else ""
    return text + (part["b"] or "")


_SPELL: dict[str, Callable[[dict[str, str | None]], str]] = {
    "cann": lambda part: _spell_release(part, "RC"),
    "product": lambda part: _spell_release(part, "RC"),
    "hdk": _spell_hdk,
    "pep440": _spell_pep440,
    "python": lambda part: part["a"] or "",
    "dotted": lambda part: part["a"] or "",
}
