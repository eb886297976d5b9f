"""Strings that remember the lines they came from, and bash's splitting of them into words."""

from __future__ import annotations

from dataclasses import dataclass

# Stands in a value for what only running the script could tell.
UNKNOWN = "\ufffc"
_BLANKS = " \t\n"


@dataclass(frozen=True)
class Origin:
    """Where text stands: the file as given by the caller, and its line (from 1)."""

    file: str
    line: int


@dataclass(frozen=True)
class Piece:
    """Text of one line; split: unquoted expansion, which bash splits at blanks."""

    text: str
    origin: Origin
    split: bool = False


Value = tuple[Piece, ...]


@dataclass(frozen=True)
class Word:
    """One word of a command as bash would pass it. known is False when part of it is unknown."""

    text: str
    origin: Origin

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text


def text_of(value: Value) -> str:
    """The value as one string."""
    return "".join(piece.text for piece in value)


def marked(value: Value, split: bool) -> Value:
    """The value with every piece marked as splitting or not."""
    return tuple(Piece(piece.text, piece.origin, split) for piece in value)


def split_words(value: Value) -> list[Word]:
    """Field splitting: blanks in pieces marked ``split`` end a word, others are kept.

    An empty quoted piece makes an empty word, as in bash.
    """
    words: list[Word] = []
    current: list[str] = []
    origin: Origin | None = None

    def close() -> None:
        nonlocal origin
        if origin is not None:
            words.append(Word("".join(current), origin))
            current.clear()
            origin = None

    for piece in value:
        if not piece.split:
            origin = origin or piece.origin
            current.append(piece.text)
            continue
        start = 0
        for end in [i for i, char in enumerate(piece.text) if char in _BLANKS] + [len(piece.text)]:
            if end > start:
                origin = origin or piece.origin
                current.append(piece.text[start:end])
            if end < len(piece.text):
                close()
            start = end + 1
    close()
    return words
