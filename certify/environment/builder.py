"""Collects sightings while probes or parsers run, and freezes them into a `Stack`."""

from __future__ import annotations

from certify.environment.stack import Device, Found, Section, Signal, Stack

_TRUST = {"certain": 0, "stated": 1, "inferred": 2}
_MAX_VERSION = 100
_MAX_SIGNALS = 400
_MAX_SIGHTINGS = 50


class StackBuilder:
    """The order of `add` calls is kept within one confidence: the first is the one in force."""

    def __init__(self, view: str) -> None:
        self.view = view
        self._found: dict[str, list[Found]] = {}
        self.devices: list[Device] = []
        self.signals: list[Signal] = []
        self.variables: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.sections: list[Section] = []
        # How far a format has looked at a text in vain, so that it looks at no line twice.
        self.in_vain: dict[str, int] = {}

    def add(
        self,
        component: str,
        version: str,
        source: str,
        confidence: str = "certain",
        **detail: str,
    ) -> None:
        """Record a sighting; an absurdly long version is cut, equal ones are kept once."""
        version = version.strip()
        if not version:
            return
        if len(version) > _MAX_VERSION:
            version = version[:_MAX_VERSION] + "..."
        seen = self._found.setdefault(component, [])
        for known in seen:
            same_place = known.detail.get("path") == detail.get("path") or confidence != "certain"
            if known.version == version and same_place:
                return
        if len(seen) < _MAX_SIGHTINGS:
            seen.append(Found(version, source, confidence, dict(detail)))

    def signal(self, signal_id: str, text: str, source: str, **data: str) -> None:
        """Record a signal once per (id, data)."""
        for known in self.signals:
            if known.id == signal_id and known.data == data:
                return
        if len(self.signals) < _MAX_SIGNALS:
            self.signals.append(Signal(signal_id, text.strip()[:400], source, dict(data)))

    def has(self, component: str) -> bool:
        """Whether the component was sighted."""
        return component in self._found

    def sightings(self, component: str) -> tuple[Found, ...]:
        """So far, in order of arrival."""
        return tuple(self._found.get(component, ()))

    def section(self, kind: str, state: str, first: int, last: int, note: str = "") -> None:
        """Note a part of a report (line numbers from 1, both inside)."""
        self.sections.append(Section(kind, state, (first, last), note))

    def build(self) -> Stack:
        """The frozen stack; the most trusted sighting of each component first."""
        components = {
            name: tuple(sorted(found, key=lambda f: _TRUST.get(f.confidence, 3)))
            for name, found in sorted(self._found.items())
        }
        return Stack(
            components=components,
            devices=tuple(self.devices),
            signals=tuple(self.signals),
            variables=dict(sorted(self.variables.items())),
            packages=dict(sorted(self.packages.items())),
            sections=tuple(self.sections),
            view=self.view,
        )
