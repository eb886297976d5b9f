"""The arguments of MindSpeed-LLM's FSDP2 backend, and their values as its parser takes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from certify.json_text import load_json
from matrices import files

_TRUE, _FALSE = ("yes", "true", "t", "y", "1"), ("no", "false", "f", "n", "0")


@dataclass(frozen=True)
class Argument:
    """One argument of the backend; keys: where its value goes in a recipe."""

    name: str
    type: str
    choices: tuple[str, ...]
    nullable: bool
    default: str
    documented: bool
    keys: tuple[str, ...]


@lru_cache(maxsize=1)
def arguments() -> dict[str, Argument]:
    """The backend's arguments by ``section.name``."""
    table = {}
    for row in files.read_tsv("fsdp2_arguments.tsv"):
        name = f"{row['section']}.{row['name']}"
        table[name] = Argument(
            name,
            row["type"],
            tuple(row["choices"].split("|")) if row["choices"] else (),
            row["nullable"] == "yes",
            row["default"],
            row["documented"] == "yes",
            tuple(row["key"].split(";")) if row["key"] else (),
        )
    return table


def _number(value: Any, cls: type) -> Any:
    if isinstance(value, (bool, list, dict)):
        raise ValueError(value)
    if cls is int and isinstance(value, float):
        if not value.is_integer():
            raise ValueError(value)
        return int(value)
    return cls(value)


def _float(value: Any) -> Any:
    """A number as written: whole ones stay whole."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return _number(value, float)


def convert(argument: Argument, value: Any) -> Any:
    """``value`` (from YAML or the command line) as the backend's parser takes it.

    Raises ValueError for one of another type, LookupError for one outside the choices.
    """
    if argument.type == "bool":
        text = str(value).lower()
        if text not in _TRUE + _FALSE or isinstance(value, (list, dict)):
            raise ValueError(value)
        return text in _TRUE
    if argument.type == "choice":
        if str(value) not in argument.choices:
            raise LookupError(value)
        return str(value)
    if argument.type in ("int", "float"):
        return _number(value, int) if argument.type == "int" else _float(value)
    if argument.type.startswith("list"):
        items = value if isinstance(value, list) else [value]
        return [_number(i, int) if argument.type.endswith("int") else str(i) for i in items]
    if argument.type == "dict" and isinstance(value, str):
        return load_json(value) if value.lstrip().startswith("{") else value
    if isinstance(value, (dict, list)) and argument.type == "str":
        raise ValueError(value)
    return value
