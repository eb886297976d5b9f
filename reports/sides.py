"""Tables that put the candidate beside the reference: code, environment, topology. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.records import Collective, Component, Environment, Modules, Topology
from reports.numbers import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reports.source import RunRecords, Source

ABSENT = ""


@dataclass(frozen=True)
class Row:
    """One property of both sides; empty text where a side has none. differs: both are there and
    are not equal."""

    label: str
    candidate: str
    reference: str

    @property
    def differs(self) -> bool:
        """Whether the two sides say different things."""
        return self.candidate != self.reference and not self.one_sided

    @property
    def one_sided(self) -> bool:
        """Whether only one side has it."""
        return (self.candidate == ABSENT) != (self.reference == ABSENT)


@dataclass(frozen=True)
class Part:
    """One component of one side: whose code it is."""

    part: str
    class_name: str
    module: str
    file: str
    package: str
    source_sha256: str


@dataclass(frozen=True)
class Side:
    """What one side is made of. groups: process group -> its members, one text;
    collectives: operations that were tested before training, and those that were wrong."""

    name: str
    backend: str
    parts: tuple[Part, ...]
    world_size: int
    process_group_backend: str
    groups: tuple[tuple[str, str], ...]
    collectives: tuple[str, ...]
    wrong_collectives: tuple[str, ...]
    trained_classes: tuple[str, ...]
    loaded: tuple[str, ...]


@dataclass(frozen=True)
class Sides:
    """Both sides. candidate, reference: None without records; tables of `Row`."""

    candidate: Side | None
    reference: Side | None
    hyperparameters: tuple[Row, ...]
    environment: tuple[Row, ...]
    packages: tuple[Row, ...]


def compare_sides(source: Source) -> Sides:
    """The two sides of a campaign, from their records."""
    runs = [source.run("candidate"), source.run("reference")]
    environments = [_last(run, Environment) for run in runs]
    effective = [_effective(run) for run in runs]
    return Sides(
        candidate=_side("candidate", runs[0]),
        reference=_side("reference", runs[1]),
        hyperparameters=_rows(*effective),
        environment=_rows(*(_surroundings(e) for e in environments)),
        packages=_rows(*(dict(e.packages) if e else {} for e in environments)),
    )


def _last(run: RunRecords | None, kind: type[Any]) -> Any:
    return run.first.last(kind) if run and run.first else None


def _rows(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[Row, ...]:
    names = list(dict.fromkeys((*candidate, *reference)))
    return tuple(
        Row(
            name,
            *(
                plain(side[name], digits=6) if name in side else ABSENT
                for side in (candidate, reference)
            ),
        )
        for name in names
    )


def _effective(run: RunRecords | None) -> dict[str, Any]:
    """``part.key`` -> value read back from the live objects."""
    components = run.first.of(Component) if run and run.first else []
    return {f"{c.part}.{key}": value for c in components for key, value in c.effective.items()}


def _surroundings(found: Environment | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "Python": found.python,
        "platform": found.platform,
        "device": found.device,
        "device name": found.device_name,
        **dict(sorted(found.effective.items())),
        **{f"${name}": value for name, value in sorted(found.variables.items())},
    }


def _side(name: str, run: RunRecords | None) -> Side | None:
    if run is None or run.first is None:
        return None
    header, topology, modules = run.first.header, _last(run, Topology), _last(run, Modules)
    tested = [c for file in run.files for c in file.of(Collective)]
    return Side(
        name=name,
        backend=header.backend,
        parts=tuple(map(_part, run.first.of(Component))),
        world_size=header.world_size,
        process_group_backend=topology.process_group_backend if topology else ABSENT,
        groups=tuple(_groups(run)),
        collectives=tuple(dict.fromkeys(c.op for c in tested)),
        wrong_collectives=tuple(
            dict.fromkeys(
                f"{c.op} ({c.group}): {c.found}, expected {c.expected}" for c in tested if not c.ok
            )
        ),
        trained_classes=tuple(modules.trained_classes) if modules else (),
        loaded=tuple(modules.loaded) if modules else (),
    )


def _part(found: Component) -> Part:
    return Part(
        found.part,
        found.class_name,
        found.module,
        found.file,
        f"{found.package} {found.version}",
        found.source_sha256,
    )


def _groups(run: RunRecords) -> Iterable[tuple[str, str]]:
    """Process group -> its distinct member lists, as every rank reported its own."""
    members: dict[str, list[list[int]]] = {}
    for file in run.files:
        topology = file.last(Topology)
        for name, ranks in (topology.groups if topology else {}).items():
            if ranks not in members.setdefault(name, []):
                members[name].append(ranks)
    for name, lists in members.items():
        yield name, "  ".join("{" + ", ".join(map(str, ranks)) + "}" for ranks in lists)
