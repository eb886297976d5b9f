"""The small text files that CANN, NNAL, driver and firmware leave behind, as dictionaries.

One function per grammar; probes read the files themselves and report parsers read pasted copies
of them. A line that does not fit is skipped.
"""

from __future__ import annotations

from certify.light import lazy

_CFG = lazy(r"^(\w+?)_(running|upgrade|installed)_version=(.*)$")
_PAIR = lazy(r"\[([^:\]]{1,60}):([^\]]{1,80})\]")


def key_values(text: str) -> dict[str, str]:
    """``key=value`` lines; the first of equal keys wins, quotes around a value are dropped."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key and not key.startswith("#") and " " not in key.strip():
            found.setdefault(key.strip(), value.strip().strip("\"'"))
    return found


def colon_values(text: str) -> dict[str, str]:
    """``key : value`` lines (NNAL's version.info, npu-smi -t board); the first key wins."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip():
            found.setdefault(key.strip(), value.strip())
    return found


def external_version(info: dict[str, str]) -> str | None:
    """What users call the version, of a component's version.info: `version_dir`, else `Version`
    (before 8.2 the latter is an internal number that looks nothing like the former)."""
    return info.get("version_dir") or info.get("Version") or info.get("version") or None


def version_cfg(text: str) -> dict[str, dict[str, list[str]]]:
    """version.cfg as component -> running | upgrade | installed -> external versions."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        match = _CFG.match(line.strip())
        if match:
            component, state, value = match.groups()
            pairs = [external.removeprefix("CANN-") for _, external in _PAIR.findall(value)]
            if pairs:
                found.setdefault(component, {})[state] = pairs
    return found


def nnal_version(text: str) -> dict[str, str]:
    """Keys version, build, commit of an nnal/atb version.info, those that are there."""
    info = colon_values(text)
    named = {
        "version": info.get("Ascend-cann-atb", ""),
        "build": info.get("Ascend-cann-atb Version", ""),
        "commit": info.get("commit id", ""),
    }
    return {key: value for key, value in named.items() if value}


def literal_assignments(text: str) -> dict[str, str]:
    """Top-level ``NAME = 'text'`` or ``NAME = 3`` of a Python file, read as text, never run.

    Type notes (``NAME: str = ...``) and ``NAME: Optional[str] = ...`` are understood.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _ASSIGN.match(line)
        if match:
            name, quoted, number = match.group(1), match.group(3), match.group(4)
            found.setdefault(name, quoted if quoted is not None else number)
    return found


_ASSIGN = lazy(r"""^(\w+)\s*(?::[^=]+)?=\s*(?:(['"])(.*?)\2|(\d+))\s*(?:#.*)?$""")
