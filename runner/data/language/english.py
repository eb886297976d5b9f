"""Says the events of a story in English.

Verbs agree with their subject in number and follow the tense of the document; nouns agree with
their count; a person is named with the role at first, and may be a pronoun afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.data.language.words import NUMBERS_EN

if TYPE_CHECKING:
    from runner.data.language.story import Event, Lot, Person, Story
    from runner.data.language.words import Doing, Verb


def sentence(text: str, mark: str = ".") -> str:
    """Capitalised, with its final mark."""
    return text[0].upper() + text[1:] + mark


def with_article(noun: str) -> str:
    """The noun with *a* or *an*."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def counted(count: int, lot: Lot, look: bool = False) -> str:
    """``seven old lamps``, ``one lamp``."""
    noun = lot.thing.one if count == 1 else lot.thing.many
    return f"{NUMBERS_EN[count]} {lot.look.en + ' ' if look else ''}{noun}"


def listed(parts: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


class English:
    """Renders one document. It remembers who and what the previous sentence spoke of."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.draw = story.draw
        self.met: list[Person] = []
        self.last_who: Person | None = None
        self.last_lot: Lot | None = None

    # Parts of sentences.

    def _be(self, many: bool) -> str:
        if self.story.past:
            return "were" if many else "was"
        return "are" if many else "is"

    def _form(self, verb: Verb | Doing, many: bool = False) -> str:
        if self.story.past:
            return verb.past
        return verb.base if many else verb.third

    def _who(self, person: Person, pronoun: bool = True) -> str:
        """The subject: a pronoun, a role or a name. pronoun: whether one would be clear here."""
        again, self.last_who = person is self.last_who, person
        if person not in self.met:
            self.met.append(person)
            return f"{person.name.en}, the {person.role.en},"
        if again and pronoun and self.draw.chance(0.6):
            return "she" if person.name.gender == "f" else "he"
        return f"the {person.role.en}" if self.draw.chance(0.3) else person.name.en

    def _what(self, lot: Lot) -> str:
        """The object: a pronoun after a sentence about the same things, else a noun phrase."""
        again = self.last_lot is not None and lot.thing is self.last_lot.thing
        self.last_lot = lot
        if again and self.draw.chance(0.5):
            return "it" if lot.count == 1 else "them"
        noun = lot.thing.one if lot.count == 1 else lot.thing.many
        style = self.draw.pick(("plain", "look", "count") if lot.count > 1 else ("plain", "look"))
        if style == "look":
            return f"the {lot.look.en} {noun}"
        if style == "count":
            return f"the {NUMBERS_EN[lot.count]} {noun}"
        return f"the {noun}"

    def _framed(self, event: Event, text: str) -> str:
        """Put the time, if there is one, before or behind the clause."""
        if event.time is None:
            return sentence(text)
        if self.draw.chance(0.5):
            return sentence(f"{event.time.en}, {text}")
        return sentence(f"{text} {event.time.en}")

    # One method per kind of event.

    def say(self, event: Event) -> str:
        """The sentence or sentences of one event."""
        return str(getattr(self, f"_say_{event.kind}")(event))

    def _say_introduce(self, event: Event) -> str:
        self.last_lot = lot = event.lot
        things = counted(lot.count, lot, look=True)
        be = self._be(lot.count > 1)
        if self.draw.chance(0.6):
            return sentence(f"there {be} {things} {lot.place.en}")
        return sentence(f"{lot.place.en} there {be} {things}")

    def _say_act(self, event: Event) -> str:
        who = self._who(event.who)
        what = self._what(event.lot)
        manner = f" {event.manner.en}" if event.manner else ""
        return self._framed(event, f"{who} {self._form(event.verb)} {what}{manner}")

    def _say_passive(self, event: Event) -> str:
        what, many = self._plain(event.lot), event.lot.count > 1
        self.last_lot = event.lot
        self.last_who = event.who
        if event.who not in self.met:
            self.met.append(event.who)
        by = event.who.name.en
        return self._framed(event, f"{what} {self._be(many)} {event.verb.part} by {by}")

    def _plain(self, lot: Lot) -> str:
        return f"the {lot.thing.one if lot.count == 1 else lot.thing.many}"

    def _say_take(self, event: Event) -> str:
        lot, number = event.lot, event.number
        who = self._who(event.who)
        before = NUMBERS_EN[lot.count + number]
        part = f"{NUMBERS_EN[number]} of the {before} {lot.thing.many}"
        verb = self._form(event.verb)
        self.last_lot = lot
        left = f"{NUMBERS_EN[lot.count]} {self._be(lot.count > 1)} left"
        if self.draw.chance(0.5):
            return sentence(f"{who} {verb} {part} for {event.other.name.en}, so {left}")
        return sentence(f"{who} {verb} {part}") + " " + sentence(f"now {left}")

    def _say_more(self, event: Event) -> str:
        lot, number = event.lot, event.number
        self.last_lot = lot
        noun = lot.thing.one if number == 1 else lot.thing.many
        come = "came" if self.story.past else ("comes" if number == 1 else "come")
        make = "made" if self.story.past else "makes"
        total = NUMBERS_EN[lot.count]
        return sentence(f"{NUMBERS_EN[number]} more {noun} {come}, which {make} {total}")

    def _say_recall(self, event: Event) -> str:
        lot = event.lot
        self.last_lot = lot
        be = self._be(lot.count > 1)
        if self.draw.chance(0.5):
            return sentence(f"there {be} still {counted(lot.count, lot)} {lot.place.en}")
        return sentence(f"all in all there {be} {counted(lot.count, lot)}")

    def _say_where(self, event: Event) -> str:
        lot = event.lot
        self.last_lot = lot
        return sentence(f"{self._plain(lot)} {self._be(lot.count > 1)} {lot.place.en}")

    def _say_compare(self, event: Event) -> str:
        one, two = event.lot, event.lot2
        self.last_lot = two
        be = self._be(True)
        if one.count == two.count:
            return sentence(f"there {be} as many {one.thing.many} as {two.thing.many}")
        word = "more" if one.count > two.count else "fewer"
        return sentence(f"there {be} {word} {one.thing.many} than {two.thing.many}")

    def _say_happening(self, event: Event) -> str:
        self.last_who = None
        return self._framed(event, self._happening(event))

    def _happening(self, event: Event) -> str:
        return event.happening.past if self.story.past else event.happening.present

    def _say_both(self, event: Event) -> str:
        self.last_who = None
        people = listed([person.name.en for person in self.story.people])
        return self._framed(event, f"{people} {self._form(event.doing, many=True)}")

    def _say_doing(self, event: Event) -> str:
        return self._framed(event, f"{self._who(event.who)} {self._form(event.doing)}")

    def _say_feel(self, event: Event) -> str:
        who = self._who(event.who)
        return sentence(f"{who} {self._be(False)} {event.degree.en} {event.feeling.en}")

    def _say_because(self, event: Event) -> str:
        who = self._who(event.who)
        act = f"{self._form(event.verb)} {self._what(event.lot)}"
        pronoun = "she" if event.who.name.gender == "f" else "he"
        why = f"{pronoun} {self._be(False)} {event.feeling.en}"
        if self.draw.chance(0.6):
            return sentence(f"{who} {act} because {why}")
        return sentence(f"{who} {self._be(False)} {event.feeling.en}, so {pronoun} {act}")

    def _say_although(self, event: Event) -> str:
        pronoun = "she" if event.who.name.gender == "f" else "he"
        who = self._who(event.who)
        return sentence(
            f"although {who} {self._be(False)} {event.feeling.en}, "
            f"{pronoun} {self._form(event.doing)}"
        )

    def _say_when(self, event: Event) -> str:
        who = self._who(event.who)
        act = f"{who} {self._form(event.verb)} {self._what(event.lot)}"
        act += f" {event.manner.en}" if event.manner else ""
        return sentence(f"when {self._happening(event)}, {act}")

    def _say_if(self, event: Event) -> str:
        who = self._who(event.who)
        what = self._what(event.lot)
        will = "would" if self.story.past else "will"
        return sentence(f"if {self._happening(event)}, {who} {will} {event.verb.base} {what}")

    def _say_say(self, event: Event) -> str:
        said = self._form_say("said", "says")
        what = self._what(event.lot)
        who, other = self._who(event.who, pronoun=False), event.other.name.en
        must = self.draw.pick(("must", "can", "should", "will", "cannot"))
        if self.draw.chance(0.4):
            tail = f"{said} {who} to {other}"
        else:
            tail = f"{said} {who.rstrip(',')}"
        return sentence(f"“We {must} {event.verb.base} {what},” {tail}")

    def _form_say(self, past: str, present: str) -> str:
        return past if self.story.past else present

    def _say_ask(self, event: Event) -> str:
        lot = event.lot
        asked, answered = self._form_say("asked", "asks"), self._form_say("answered", "answers")
        who = self._who(event.who, pronoun=False).rstrip(",")
        other = self._who(event.other, pronoun=False).rstrip(",")
        question = f"“How many {lot.thing.many} are there?” {asked} {who}"
        self.last_lot = lot
        return f"{sentence(question)} “{sentence(NUMBERS_EN[lot.count], ',')}” {answered} {other}."

    def _say_relative(self, event: Event) -> str:
        lot, who = event.lot, event.who
        self.last_lot, self.last_who = lot, who
        if who not in self.met:
            self.met.append(who)
        had = "had" if self.story.past else "has"
        clause = f"who {had} {event.verb.part} {self._plain(lot)}"
        return sentence(f"the {who.role.en} {clause} {self._form(event.doing)}")

    def _say_sequence(self, event: Event) -> str:
        first = f"first {self._who(event.who)} {self._form(event.verb)} {self._what(event.lot)}"
        it = "it" if event.lot.count == 1 else "them"
        other = self._who(event.other, pronoun=False)
        return sentence(f"{first}, then {other} {self._form(event.verb2)} {it}")

    def _say_nobody(self, event: Event) -> str:
        self.last_who = None
        return sentence(f"nobody {self._form(event.verb)} {self._what(event.lot)}")

    def _say_role(self, event: Event) -> str:
        self.last_who = event.who
        if event.who not in self.met:
            self.met.append(event.who)
        role = with_article(event.who.role.en)
        return sentence(f"{event.who.name.en} {self._be(False)} {role}")

    # Around the events.

    def title(self) -> str:
        """The headline. It speaks of the first person and of the theme."""
        story = self.story
        first = story.people[0].name.en
        return self.draw.pick(
            (
                f"{first} at the {story.theme.name.en}",
                f"A day at the {story.theme.name.en}",
                f"{first} and {story.people[1].name.en}",
            )
        )

    def inventory(self) -> str:
        """The closing list of what is left, in digits."""
        lots = [
            f"{lot.count} {lot.thing.one if lot.count == 1 else lot.thing.many}"
            for lot in self.story.lots
        ]
        return f"Count: {', '.join(lots)}."

    def summary(self) -> str:
        """What a reader of the other language is told: it follows from the story."""
        story = self.story
        people = listed([f"{person.name.en} the {person.role.en}" for person in story.people])
        things = listed([counted(lot.count, lot) for lot in story.lots])
        return f"In English: {people} at the {story.theme.name.en}; {things}."
