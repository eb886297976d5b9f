"""What is installed, as seen on a host or in a pasted report: the type that every probe and every
report parser fills, and that the resolver judges."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    from certify.light import dataclass, field


@dataclass(frozen=True)
class Found:
    """One sighting of a component.

    version: as spelled where it was found; source: file, command or report line;
    confidence: ``certain`` (read from a file or from metadata), ``stated`` (in pasted text) or
    ``inferred`` (follows from something else); detail: further facts (git_version, path, editable).
    """

    version: str
    source: str
    confidence: str = "certain"
    detail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Device:
    """One accelerator as its tool names it. index: as the tool counts (A3 counts dies);
    memory_mb: total device memory, None when not shown; health: the tool's own word."""

    index: int
    name: str
    memory_mb: int | None = None
    health: str | None = None
    bus_id: str | None = None


@dataclass(frozen=True)
class Signal:
    """A sighting that is no version: an error text, a layout, a variable, a missing file.

    id: a key of `certify.environment.signals.SIGNALS`; text: what was seen; source: where;
    data: named parts of it.
    """

    id: str
    text: str
    source: str
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """One part of a pasted report. state: ``read``, ``partial`` or ``unparsed``: text that could
    not be read is never taken as absence."""

    kind: str
    state: str
    lines: tuple[int, int]
    note: str = ""


@dataclass(frozen=True)
class Stack:
    """components: name (the matrix's component keys: cann, torch, torch_npu, hdk, driver, ...) ->
    sightings, the one in force first; variables: environment by allow-list; packages: PEP 503 name
    -> version for every Python package seen; view: host | container | report."""

    components: dict[str, tuple[Found, ...]] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    signals: tuple[Signal, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()
    view: str = "host"
