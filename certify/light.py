"""Cheap stand-ins for the standard library, for modules that check-env loads at every start.
For the same reason these write ``TYPE_CHECKING = False``, which type checkers know by its name,
and import nothing from `typing` at run time.

`dataclass` makes the same classes as `dataclasses.dataclass` without importing `inspect` and
without compiling code for each class; the real fields are made when somebody asks for them, so
`dataclasses.replace`, `fields` and `asdict` work as ever. `lazy` is `re.compile` on first
use, `module` is `importlib.import_module`.
Type checkers see the originals:

    if TYPE_CHECKING:
        from dataclasses import dataclass, field
    else:
        from certify.light import dataclass, field
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_ABSENT: Any = object()


def module(name: str) -> ModuleType:
    """The module of this full name, imported if it must be, without what `importlib` loads."""
    __import__(name)
    return sys.modules[name]


class _Field:
    """What `field` answers: a default, or a function that makes one."""

    __slots__ = ("default", "default_factory")

    def __init__(self, default: Any, default_factory: Any) -> None:
        self.default = default
        self.default_factory = default_factory


def field(*, default: Any = _ABSENT, default_factory: Any = _ABSENT) -> Any:
    """As `dataclasses.field`, for these two arguments."""
    return _Field(default, default_factory)


class _RealFields:
    """`__dataclass_fields__` of a light class, made by the real module on first access."""

    def __get__(self, instance: object, owner: Any) -> Any:
        import dataclasses

        body: dict[str, Any] = {"__annotations__": {}}
        for name in owner._light_names:
            body["__annotations__"][name] = owner._light_types[name]
            default = owner._light_defaults.get(name, _ABSENT)
            if isinstance(default, _Field):
                body[name] = dataclasses.field(default_factory=default.default_factory)
            elif default is not _ABSENT:
                body[name] = default
        twin: Any = dataclasses.dataclass(type(owner.__name__, (), body))
        owner.__dataclass_fields__ = twin.__dataclass_fields__
        return twin.__dataclass_fields__


def _init(self: Any, *args: Any, **named: Any) -> None:
    cls = type(self)
    names = cls._light_names
    if len(args) > len(names):
        raise TypeError(f"{cls.__name__} takes {len(names)} values, {len(args)} were given")
    values = dict(zip(names, args, strict=False))
    if len(args) == len(names) and not named:
        self.__dict__.update(values)
        return
    for name, value in named.items():
        if name in values or name not in cls._light_types:
            raise TypeError(f"{cls.__name__}: unexpected or repeated value {name!r}")
        values[name] = value
    for name in names[len(args) :]:
        if name not in values:
            default = cls._light_defaults.get(name, _ABSENT)
            if default is _ABSENT:
                raise TypeError(f"{cls.__name__} needs a value for {name!r}")
            values[name] = default.default_factory() if isinstance(default, _Field) else default
    self.__dict__.update({name: values[name] for name in names})


def _repr(self: Any) -> str:
    inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._light_names)
    return f"{type(self).__qualname__}({inner})"


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self._light_names)


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _refuse(self: Any, name: str, *value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def dataclass(cls: Any = None, *, frozen: bool = False) -> Any:
    """As `dataclasses.dataclass`, for classes without inheritance of fields."""
    if cls is None:
        return lambda wrapped: dataclass(wrapped, frozen=frozen)
    types = getattr(cls, "__annotations__", {})
    defaults = {}
    for name in types:
        value = cls.__dict__.get(name, _ABSENT)
        if isinstance(value, _Field):
            if value.default is not _ABSENT:
                value = value.default
            else:
                delattr(cls, name)
        if value is not _ABSENT:
            defaults[name] = value
            if not isinstance(value, _Field):
                setattr(cls, name, value)
    cls._light_names = tuple(types)
    cls._light_types = dict(types)
    cls._light_defaults = defaults
    cls.__dataclass_fields__ = _RealFields()
    setattr(cls, "__match_args__", cls._light_names)  # noqa: B010 (mypy forbids the plain form)
    cls.__init__ = _init
    cls.__repr__ = _repr
    cls.__eq__ = _eq
    cls.__hash__ = _hash if frozen else None
    if frozen:
        cls.__setattr__ = _refuse
        cls.__delattr__ = _refuse
    return cls


if TYPE_CHECKING:
    lazy: Callable[..., re.Pattern[str]]
else:

    class lazy:
        """A regular expression that is compiled when it is first used."""

        def __init__(self, *arguments: Any) -> None:
            self._arguments = arguments

        def __getattr__(self, name: str) -> Any:
            import re

            # Kept under its name, so that this function is not asked again. re keeps the compiled
            # expressions, but few of them.
            compiled = self.__dict__.setdefault("_compiled", None) or re.compile(*self._arguments)
            self._compiled = compiled
            value = getattr(compiled, name)
            self.__dict__[name] = value
            return value
