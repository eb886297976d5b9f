"""Says the events of a story in Chinese.

Every noun goes with its own measure word; 把 and 被 sentences, 了, 没, topic order and paired
conjunctions (因为 and 所以, 虽然 and 但是) stand where the grammar asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.data.language.words import NUMBERS_ZH

if TYPE_CHECKING:
    from runner.data.language.story import Event, Lot, Person, Story


def counted(count: int, lot: Lot, look: bool = False) -> str:
    """``七盏旧的灯``, ``一盏灯``."""
    return (
        f"{NUMBERS_ZH[count]}{lot.thing.measure}{lot.look.zh + '的' if look else ''}{lot.thing.zh}"
    )


class Chinese:
    """Renders one document. It remembers who and what the previous sentence spoke of."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.draw = story.draw
        self.met: list[Person] = []
        self.last_who: Person | None = None
        self.last_lot: Lot | None = None

    def _who(self, person: Person, pronoun: bool = True) -> str:
        """The subject: a pronoun, a role or a name; role and name at the first mention."""
        again, self.last_who = person is self.last_who, person
        if person not in self.met:
            self.met.append(person)
            return f"{person.role.zh}{person.name.zh}"
        if again and pronoun and self.draw.chance(0.6):
            return self._pronoun(person)
        return person.role.zh if self.draw.chance(0.3) else person.name.zh

    def _pronoun(self, person: Person) -> str:
        return "她" if person.name.gender == "f" else "他"

    def _what(self, lot: Lot) -> str:
        """The object: a demonstrative after a sentence about the same things, or a noun phrase."""
        again = self.last_lot is not None and lot.thing is self.last_lot.thing
        self.last_lot = lot
        those = f"这{lot.thing.measure}" if lot.count == 1 else "这些"
        if again and self.draw.chance(0.5):
            return f"{those}{lot.thing.zh}"
        style = self.draw.pick(("plain", "look", "count") if lot.count > 1 else ("plain", "look"))
        if style == "look":
            return f"{lot.look.zh}的{lot.thing.zh}"
        if style == "count":
            return f"那{counted(lot.count, lot)}"
        return lot.thing.zh

    def _timed(self, event: Event, who: str, rest: str) -> str:
        """Put the time, if there is one, before or behind the subject."""
        if event.time is None:
            return f"{who}{rest}。"
        if self.draw.chance(0.5):
            return f"{event.time.zh}，{who}{rest}。"
        return f"{who}{event.time.zh}{rest}。"

    def say(self, event: Event) -> str:
        """The sentence or sentences of one event."""
        return str(getattr(self, f"_say_{event.kind}")(event))

    def _say_introduce(self, event: Event) -> str:
        self.last_lot = lot = event.lot
        things = counted(lot.count, lot, look=True)
        if self.draw.chance(0.6):
            return f"{lot.place.zh}有{things}。"
        return f"有{things}放在{lot.place.zh}。"

    def _say_act(self, event: Event) -> str:
        who = self._who(event.who)
        what = self._what(event.lot)
        manner = event.manner.zh if event.manner else ""
        return self._timed(event, who, f"{manner}把{what}{event.verb.zh}了")

    def _say_passive(self, event: Event) -> str:
        self.last_lot, self.last_who = event.lot, event.who
        if event.who not in self.met:
            self.met.append(event.who)
        what = event.lot.thing.zh
        return self._timed(event, what, f"被{event.who.name.zh}{event.verb.zh}了")

    def _say_take(self, event: Event) -> str:
        lot, number = event.lot, event.number
        who = self._who(event.who)
        self.last_lot = lot
        part = f"{NUMBERS_ZH[lot.count + number]}{lot.thing.measure}{lot.thing.zh}当中的"
        part += f"{NUMBERS_ZH[number]}{lot.thing.measure}"
        left = f"{NUMBERS_ZH[lot.count]}{lot.thing.measure}"
        if self.draw.chance(0.5):
            return f"{who}替{event.other.name.zh}把{part}{event.verb.zh}了，所以还剩{left}。"
        return f"{who}把{part}{event.verb.zh}了。现在还剩{left}。"

    def _say_more(self, event: Event) -> str:
        lot = event.lot
        self.last_lot = lot
        total = f"{NUMBERS_ZH[lot.count]}{lot.thing.measure}"
        return f"又来了{counted(event.number, lot)}，这样就有{total}了。"

    def _say_recall(self, event: Event) -> str:
        lot = event.lot
        self.last_lot = lot
        if self.draw.chance(0.5):
            return f"{lot.place.zh}仍然有{counted(lot.count, lot)}。"
        return f"一共有{counted(lot.count, lot)}。"

    def _say_where(self, event: Event) -> str:
        self.last_lot = event.lot
        return f"{event.lot.thing.zh}在{event.lot.place.zh}。"

    def _say_compare(self, event: Event) -> str:
        one, two = event.lot, event.lot2
        self.last_lot = two
        if one.count == two.count:
            return f"{one.thing.zh}和{two.thing.zh}一样多。"
        return f"{one.thing.zh}比{two.thing.zh}{'多' if one.count > two.count else '少'}。"

    def _say_happening(self, event: Event) -> str:
        self.last_who = None
        if event.time is None:
            return f"{event.happening.zh}。"
        return f"{event.time.zh}，{event.happening.zh}。"

    def _say_both(self, event: Event) -> str:
        self.last_who = None
        people = "和".join(person.name.zh for person in self.story.people)
        return self._timed(event, people, f"都{event.doing.zh}")

    def _say_doing(self, event: Event) -> str:
        return self._timed(event, self._who(event.who), event.doing.zh)

    def _say_feel(self, event: Event) -> str:
        return f"{self._who(event.who)}{event.degree.zh}{event.feeling.zh}。"

    def _say_because(self, event: Event) -> str:
        who = self._who(event.who)
        act = f"把{self._what(event.lot)}{event.verb.zh}了"
        if self.draw.chance(0.6):
            return f"{who}{act}，因为{self._pronoun(event.who)}很{event.feeling.zh}。"
        return f"因为{who}很{event.feeling.zh}，所以{self._pronoun(event.who)}{act}。"

    def _say_although(self, event: Event) -> str:
        who = self._who(event.who)
        then = f"但是{self._pronoun(event.who)}还是{event.doing.zh}"
        return f"虽然{who}很{event.feeling.zh}，{then}。"

    def _say_when(self, event: Event) -> str:
        who = self._who(event.who)
        what = self._what(event.lot)
        manner = event.manner.zh if event.manner else ""
        when = f"{event.happening.zh.removesuffix('了')}的时候"
        return f"{when}，{who}{manner}把{what}{event.verb.zh}了。"

    def _say_if(self, event: Event) -> str:
        who = self._who(event.who)
        return f"如果{event.happening.zh}，{who}就把{self._what(event.lot)}{event.verb.zh}。"

    def _say_say(self, event: Event) -> str:
        what = self._what(event.lot)
        who = self._who(event.who, pronoun=False)
        must = self.draw.pick(("必须", "可以", "应该", "会", "不能"))
        to = f"对{event.other.name.zh}" if self.draw.chance(0.4) else ""
        return f"{who}{to}说：“我们{must}把{what}{event.verb.zh}。”"

    def _say_ask(self, event: Event) -> str:
        lot = event.lot
        who = self._who(event.who, pronoun=False)
        other = self._who(event.other, pronoun=False)
        self.last_lot = lot
        answer = f"{NUMBERS_ZH[lot.count]}{lot.thing.measure}"
        return f"{who}问：“有多少{lot.thing.measure}{lot.thing.zh}？”{other}回答：“{answer}。”"

    def _say_relative(self, event: Event) -> str:
        self.last_lot, self.last_who = event.lot, event.who
        if event.who not in self.met:
            self.met.append(event.who)
        clause = f"把{event.lot.thing.zh}{event.verb.zh}的那位{event.who.role.zh}"
        return f"{clause}{event.doing.zh}。"

    def _say_sequence(self, event: Event) -> str:
        who = self._who(event.who)
        first = f"先是{who}把{self._what(event.lot)}{event.verb.zh}了"
        other = self._who(event.other, pronoun=False)
        it = "它" if event.lot.count == 1 else "它们"
        return f"{first}，然后{other}又把{it}{event.verb2.zh}了。"

    def _say_nobody(self, event: Event) -> str:
        self.last_who = None
        return f"没有人把{self._what(event.lot)}{event.verb.zh}。"

    def _say_role(self, event: Event) -> str:
        self.last_who = event.who
        if event.who not in self.met:
            self.met.append(event.who)
        return f"{event.who.name.zh}是一位{event.who.role.zh}。"

    def title(self) -> str:
        """The headline. It speaks of the first person and of the theme."""
        story = self.story
        first = story.people[0].name.zh
        return self.draw.pick(
            (
                f"{first}在{story.theme.name.zh}",
                f"{story.theme.name.zh}的一天",
                f"{first}和{story.people[1].name.zh}",
            )
        )

    def inventory(self) -> str:
        """The closing list of what is left, in digits."""
        lots = [f"{lot.thing.zh}{lot.count}{lot.thing.measure}" for lot in self.story.lots]
        return f"清单：{'，'.join(lots)}。"

    def summary(self) -> str:
        """What a reader of the other language is told: it follows from the story."""
        story = self.story
        people = "、".join(f"{person.role.zh}{person.name.zh}" for person in story.people)
        things = "、".join(counted(lot.count, lot) for lot in story.lots)
        return f"中文提要：{story.theme.name.zh}里有{people}；{things}。"
