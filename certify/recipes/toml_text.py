"""Write the TOML that recipe files are made of (the standard library only reads it)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 100


def _string(text: str) -> str:
    # A TOML basic string is a JSON string, but for DEL, which only TOML forbids.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (list, tuple)):
        items = [_value(item) for item in value]
        line = f"[{', '.join(items)}]"
        if len(line) <= _WIDTH - 20:
            return line
        return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
    raise TypeError(f"no TOML form for {type(value).__name__}")


def _is_tables(value: Any) -> bool:
    return bool(value) and isinstance(value, (list, tuple)) and isinstance(value[0], dict)


def _emit(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    for key, value in table.items():
        if value is not None and not isinstance(value, dict) and not _is_tables(value):
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in table.items():
        inner = (*path, key)
        name = ".".join(map(_key, inner))
        if isinstance(value, dict) and value:
            if any(not isinstance(v, dict) and v is not None for v in value.values()):
                lines += ["", f"[{name}]"]
            _emit(value, inner, lines)
        elif _is_tables(value):
            for item in value:
                lines += ["", f"[[{name}]]"]
                _emit(item, inner, lines)


def dumps(table: Mapping[str, Any]) -> str:
    """The table as TOML text; keys whose value is None or an empty table are left out."""
    lines: list[str] = []
    _emit(table, (), lines)
    return "\n".join(lines).strip("\n") + "\n"
