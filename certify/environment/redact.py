"""Takes secrets out of everything that is shown, and names of hosts and people on request."""

from __future__ import annotations

import os

from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

_SECRET_ASSIGNED = lazy(
    r"(?i)((?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|credential|authorization)"
    r"[\w-]{0,20}[\"']?\s{0,2}[=:]\s{0,2}[\"']?)(?!//)[^\s\"',;]{4,200}"
)
_SECRET_SHAPED = lazy(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{12,}"
    r"|xox[abp]-[\w-]{10,}|glpat-[\w-]{16,})"
)
_CREDENTIALS = lazy(r"(//)[^/\s:@]{1,80}:[^/\s]{1,120}@")
_IPV4 = lazy(
    r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])"
)
_HOME = lazy(r"(/(?:home|Users|data/home|mnt/home)/)[^/\s:\"']{1,64}")
_MAIL = lazy(r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4}\b")
_MAC = lazy(r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b")
_PROMPT = lazy(
    r"(\[)[\w.-]{1,40}@?[\w.-]{0,60}( [^\]\s]{1,80}\][#$])|\b[\w.-]{1,40}@[\w.-]{1,60}(:[~/])"
)


# Without one of its words an expression of `secrets` cannot fit, and most texts have none.
_NAMED = ("token", "secret", "passw", "key", "credential", "authorization")
_SHAPED = ("hf_", "sk-", "ghp_", "gho_", "ghu_", "ghr_", "ghs_", "akia", "xox", "glpat-")


def secrets(text: str) -> str:
    """Without tokens and passwords: done for every output."""
    low = text.lower()
    if any(word in low for word in _NAMED):
        text = _SECRET_ASSIGNED.sub(r"\1***", text)
    if any(start in low for start in _SHAPED):
        text = _SECRET_SHAPED.sub("***", text)
    return _CREDENTIALS.sub(r"\1***@", text) if "//" in low and "@" in low else text


def identities(text: str, names: tuple[str, ...] = ()) -> str:
    """Also without host and user names, addresses and mail: for texts that leave the house.

    names: what this host is called, replaced wherever it stands.
    """
    text = secrets(text)
    for name in names:
        if len(name) > 2:
            text = text.replace(name, "HOST")
    text = _MAIL.sub("USER@HOST", text)
    text = _HOME.sub(r"\1USER", text)
    text = _MAC.sub("xx:xx:xx:xx:xx:xx", text)
    text = _PROMPT.sub(
        lambda m: (m.group(1) or "") + "USER" + (m.group(2) or m.group(3) or ""), text
    )
    # Four numbers with points are a driver build as often as an address: those that could be one.
    return _IPV4.sub(_address, text)


def _address(match: re.Match[str]) -> str:
    first, second = (int(part) for part in match.group().split(".")[:2])
    private = first in (10, 127, 172, 192, 169) or first > 100 or (first > 26 and second > 9)
    return "x.x.x.x" if private else match.group()


def everywhere(value: Any, full: bool) -> Any:
    """Applied to all strings of a document. full: `identities` instead of `secrets` only."""
    names = tuple({os.uname().nodename, os.uname().nodename.split(".")[0]}) if full else ()
    return _walk(value, full, names)


def _walk(value: Any, full: bool, names: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return identities(value, names) if full else secrets(value)
    if isinstance(value, dict):
        return {key: _walk(item, full, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, full, names) for item in value]
    return value
