"""The JSON form of specs: frozen dataclasses, read strictly, written stably."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from certify.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


def to_json(value: Any) -> str:
    """The JSON text of a spec (any of the dataclasses here), stable for equal values."""
    return json.dumps(dataclasses.asdict(value), indent=1, sort_keys=True, ensure_ascii=False)


def write_form(value: Any, path: Path) -> None:
    """Write a spec's JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(value) + "\n", encoding="utf-8")


def read_form(cls: type[T], path: Path, schema: str) -> T:
    """Read a spec's JSON file. Raises UsageError naming the key at fault, or the other schema."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the spec: {error.strerror}", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the spec is not JSON: {error}", where=str(path)) from None
    spec = from_json(cls, body, str(path))
    found = getattr(spec, "schema", None)
    if found != schema:
        raise UsageError(f"a spec of schema {found!r}", where=str(path), expected=repr(schema))
    return spec


def from_json(cls: type[T], body: Any, where: str) -> T:
    """Build a dataclass from parsed JSON, strictly. where: prefix of the key in messages."""
    if not isinstance(body, dict):
        raise UsageError(f"found {type(body).__name__}", where=where, expected="a JSON object")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(body) - set(fields)):
        raise UsageError(
            f"unknown key {unknown[0]!r}", where=where, expected=_near(unknown[0], fields)
        )
    values: dict[str, Any] = {}
    for name, f in fields.items():
        if name in body:
            values[name] = _convert(hints[name], body[name], f"{where}: {name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise UsageError(f"missing key {name!r}", where=where)
    return cls(**values)


def _near(name: str, known: typing.Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f"{near[0]!r}?" if near else f"one of {', '.join(sorted(known))}"


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        arms = typing.get_args(hint)
        if value is None and type(None) in arms:
            return None
        return _convert(next(a for a in arms if a is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list):
            raise UsageError(f"found {value!r}", where=where, expected="a list")
        item = typing.get_args(hint)[0]
        return tuple(_convert(item, v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise UsageError(f"found {value!r}", where=where, expected="an object")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(value, hint) and not (hint is int and isinstance(value, bool))):
        return value
    raise UsageError(f"found {value!r}", where=where, expected=getattr(hint, "__name__", str(hint)))
