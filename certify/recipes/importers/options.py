"""From the words after a program's name to its options, by the option table of upstream."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from matrices import files

if TYPE_CHECKING:
    from certify.recipes.importers.values import Origin, Word


@dataclass(frozen=True)
class OptionSpec:
    """One option of upstream's parsers. words: values it takes (0, 1, ``?``, ``+``, ``*``, N)."""

    option: str
    words: str
    type: str
    choices: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Option:
    """One occurrence of an option with the words that follow it."""

    name: str
    values: tuple[str, ...]
    origin: Origin

    @property
    def value(self) -> str:
        """The values as one string, ``""`` for a flag."""
        return " ".join(self.values)


@dataclass
class Options:
    """Options in the order in which they are passed, and words that belong to none."""

    given: list[Option] = field(default_factory=list)
    stray: list[Word] = field(default_factory=list)

    def last(self) -> dict[str, Option]:
        """The occurrence of each option that counts: argparse keeps the last."""
        return {option.name: option for option in self.given}


@lru_cache(maxsize=1)
def known_options() -> dict[str, OptionSpec]:
    """Upstream's options by name."""
    return {
        row["option"]: OptionSpec(
            row["option"],
            row["words"],
            row["type"],
            tuple(row["choices"].split("|")) if row["choices"] else (),
            row["source"],
        )
        for row in files.read_tsv("mcore_options.tsv")
    }


def is_option(text: str) -> bool:
    """Whether argparse takes the word for an option: two dashes and a letter."""
    return text.startswith("--") and text[2:3].isalpha()


def _most(words: str) -> int:
    return 1 << 30 if words in ("*", "+") else 1 if words == "?" else int(words)


def read_options(words: tuple[Word, ...]) -> Options:
    """Group words into options. An option unknown to upstream takes the words that follow it."""
    options = Options()
    specs = known_options()
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not is_option(word.text):
            options.stray.append(word)
            continue
        name, equals, attached = word.text.partition("=")
        values = [attached] if equals else []
        spec = specs.get(name)
        most = _most(spec.words) if spec else 1 << 30
        while i < len(words) and len(values) < most and not is_option(words[i].text):
            values.append(words[i].text)
            i += 1
        options.given.append(Option(name, tuple(values), word.origin))
    return options
