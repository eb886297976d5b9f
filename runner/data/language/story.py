"""What happens in a document, before it is said in any language.

A story keeps a small world (people with roles, lots of things with a count, a look and a place),
so that later sentences repeat, and compute with, what earlier ones said: context lowers the loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runner.data.language.themes import THEMES
from runner.data.language.words import (
    ADJECTIVES,
    DEGREES,
    DOINGS,
    FEELINGS,
    HAPPENINGS,
    MANNERS,
    NAMES,
    TIMES,
    VERBS,
)

if TYPE_CHECKING:
    from runner.data.language.draw import Draw
    from runner.data.language.themes import Theme, Thing
    from runner.data.language.words import Doing, Happening, Name, Pair, Verb

MOST = 20  # the largest count that has a word in both languages
KINDS_OF_THINGS = 4  # a document speaks of at most this many
_UNSET: Any = None  # a part that the sentence pattern does not have


@dataclass(frozen=True)
class Person:
    """Somebody in the story."""

    name: Name
    role: Pair


@dataclass(frozen=True)
class Lot:
    """Some things of one kind. count: how many there are at this point of the story."""

    thing: Thing
    look: Pair
    place: Pair
    count: int


@dataclass(frozen=True)
class Event:
    """One sentence's content. kind names the sentence pattern; the rest is what it needs.

    lot is as after the event; number is what was added, taken or asked for; time and manner may be
    None, anything else that a pattern says is set.
    """

    kind: str
    time: Pair | None = None
    manner: Pair | None = None
    number: int = 0
    who: Person = _UNSET
    other: Person = _UNSET
    lot: Lot = _UNSET
    lot2: Lot = _UNSET
    verb: Verb = _UNSET
    verb2: Verb = _UNSET
    doing: Doing = _UNSET
    feeling: Pair = _UNSET
    degree: Pair = _UNSET
    happening: Happening = _UNSET


# Kinds of events, likeliest first (see `Draw.pick`). The state-changing ones are near the top so
# that most documents need arithmetic.
KINDS = (
    "act",
    "take",
    "when",
    "passive",
    "say",
    "doing",
    "more",
    "because",
    "feel",
    "recall",
    "ask",
    "relative",
    "sequence",
    "where",
    "although",
    "if",
    "compare",
    "nobody",
    "happening",
    "both",
    "role",
)


@dataclass
class Story:
    """One document's world and the choices that shape all its sentences."""

    draw: Draw
    theme: Theme
    past: bool
    people: list[Person] = field(default_factory=list)
    lots: list[Lot] = field(default_factory=list)
    verbs: list[Verb] = field(default_factory=list)  # verbs used so far, one entry per use

    def next_event(self) -> Event:
        """Draw the next event and apply it to the world."""
        if not self.lots or (len(self.lots) < KINDS_OF_THINGS and self.draw.chance(0.25)):
            return self._introduce()
        kind = self.draw.pick(self._possible())
        return self._fill(kind)

    def _possible(self) -> list[str]:
        """Kinds that the present state allows."""
        barred = set()
        if len(self.lots) < 2:
            barred.add("compare")
        if all(lot.count < 2 for lot in self.lots):
            barred.add("take")
        if all(lot.count >= MOST for lot in self.lots):
            barred.add("more")
        return [kind for kind in KINDS if kind not in barred]

    def _introduce(self) -> Event:
        draw = self.draw
        known = [lot.thing for lot in self.lots]
        thing = draw.pick([thing for thing in self.theme.things if thing not in known])
        lot = Lot(
            thing,
            draw.pick(ADJECTIVES),
            draw.pick(self.theme.places),
            draw.pick(range(1, 13)),
        )
        self.lots.append(lot)
        return Event("introduce", lot=lot, number=lot.count)

    def _verb(self) -> Verb:
        return self.draw.pick_again([*self.theme.verbs, *VERBS], self.verbs)

    def _two(self) -> tuple[Person, Person]:
        who = self.draw.pick(self.people)
        return who, self.draw.pick([person for person in self.people if person is not who])

    def _change(self, lot: Lot, count: int) -> Lot:
        changed = replace(lot, count=count)
        self.lots[self.lots.index(lot)] = changed
        return changed

    def _fill(self, kind: str) -> Event:
        draw = self.draw
        if kind in ("happening", "both"):
            return self._without_lot(kind)
        if kind == "take":
            lot = draw.pick([lot for lot in self.lots if lot.count > 1])
            number = draw.pick(range(1, lot.count))
            who, other = self._two()
            left = self._change(lot, lot.count - number)
            return Event(kind, who=who, other=other, lot=left, number=number, verb=self._verb())
        if kind == "more":
            lot = draw.pick([lot for lot in self.lots if lot.count < MOST])
            number = draw.pick(range(1, min(8, MOST - lot.count) + 1))
            return Event(kind, lot=self._change(lot, lot.count + number), number=number)
        if kind == "compare":
            lot = draw.pick(self.lots)
            other_lot = draw.pick([one for one in self.lots if one is not lot])
            return Event(kind, lot=lot, lot2=other_lot)
        if kind in ("recall", "where"):
            lot = draw.pick(self.lots)
            return Event(kind, lot=lot, number=lot.count)
        return self._personal(kind)

    def _without_lot(self, kind: str) -> Event:
        time = self.draw.pick(TIMES) if self.draw.chance(0.5) else None
        if kind == "both":
            return Event(kind, time, doing=self.draw.pick(DOINGS))
        return Event(kind, time, happening=self.draw.pick(HAPPENINGS))

    def _personal(self, kind: str) -> Event:
        """Events about a person; optional parts are drawn only where the pattern says them."""
        draw = self.draw
        parts: dict[str, Any] = {}
        if kind in ("ask", "sequence", "say"):
            parts["who"], parts["other"] = self._two()
        elif kind != "nobody":
            parts["who"] = draw.pick(self.people)
        if kind not in ("feel", "doing", "although", "role"):
            parts["lot"] = draw.pick(self.lots)
            if kind != "ask":
                parts["verb"] = self._verb()
        if kind == "sequence":
            parts["verb2"] = self._verb()
        if kind in ("doing", "although", "relative"):
            parts["doing"] = draw.pick(DOINGS)
        if kind in ("act", "when") and draw.chance(0.5):
            parts["manner"] = draw.pick(MANNERS)
        if kind in ("act", "doing", "passive") and draw.chance(0.5):
            parts["time"] = draw.pick(TIMES)
        if kind in ("feel", "because", "although"):
            parts["feeling"] = draw.pick(FEELINGS)
        if kind == "feel":
            parts["degree"] = draw.pick(DEGREES)
        if kind in ("when", "if"):
            parts["happening"] = draw.pick(HAPPENINGS)
        return Event(kind, **parts)


def new_story(draw: Draw) -> Story:
    """Draw a theme, a tense and two or three people with different names and roles."""
    theme = draw.even(THEMES)
    story = Story(draw, theme, past=draw.chance(0.7))
    names, roles = list(NAMES), list(theme.roles)
    for _ in range(3 if draw.chance(0.4) else 2):
        person = Person(draw.pick(names), draw.pick(roles))
        names.remove(person.name)
        roles.remove(person.role)
        story.people.append(person)
    return story
