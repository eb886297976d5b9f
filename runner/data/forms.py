"""The forms of a record: plain text, Alpaca, ShareGPT, messages. A record becomes a `Document`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from certify.errors import UsageError

RECORD = (
    'an object with "text"; "instruction" and "output" (Alpaca); "conversations" of'
    ' "from" and "value" (ShareGPT); or "messages" of "role" and "content"'
)
# Keys that make an object a record, beside "text".
FORMS = (("instruction", "output"), ("conversations",), ("messages",))
ANSWERS = frozenset({"gpt", "assistant", "function_call"})
ROLES = ANSWERS | {"human", "user", "system", "observation", "tool", "function"}


@dataclass(frozen=True)
class Part:
    """A piece of a document. trained: supervised fine-tuning has it in the loss."""

    text: str
    trained: bool = True


@dataclass(frozen=True)
class Document:
    """One document. text: its plain text, as pretraining sees it."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All parts, one after the other."""
        return "".join(part.text for part in self.parts)


def record(body: Any, where: str) -> Document:
    """One record in any of the accepted forms."""
    document = _form(body, where)
    for part in document.parts:
        check_text(part.text, where)
    return document


def check_text(text: str, where: str) -> None:
    """Raises UsageError for text with a lone surrogate, which JSON lets through."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the text holds half of a surrogate pair, \\u{ord(text[error.start]):04x}",
            where=where,
            expected="Unicode text; beyond \\uffff JSON escapes characters in pairs",
        ) from None


def _form(body: Any, where: str) -> Document:
    if isinstance(body, dict):
        if isinstance(body.get("text"), str):
            return Document((Part(body["text"]),))
        if "instruction" in body and "output" in body:
            return _alpaca(body, where)
        for key, role, content in (
            ("conversations", "from", "value"),
            ("messages", "role", "content"),
        ):
            if key in body:
                return _turns(body, key, role, content, where)
        if "text" in body:
            return Document((Part(_string(body["text"], "text", where)),))
        found = f"keys {', '.join(sorted(body)) or '(none)'}"
    else:
        found = f"found {type(body).__name__}"
    raise UsageError(f"not a record of text: {found}", where=where, expected=RECORD)


def _string(value: Any, what: str, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{what} is {type(value).__name__}", where=where, expected="a string")
    return value


def _alpaca(body: dict[str, Any], where: str) -> Document:
    parts = []
    for key in ("system", "instruction", "input"):
        if text := _string(body.get(key), key, where):
            parts.append(Part(text + "\n", trained=False))
    parts.append(Part(_string(body["output"], "output", where) + "\n"))
    return Document(tuple(parts))


def _turns(body: dict[str, Any], key: str, role: str, content: str, where: str) -> Document:
    turns = body[key]
    if not isinstance(turns, list) or not turns:
        raise UsageError(f"{key} is not a list of turns", where=where, expected=RECORD)
    parts = []
    if system := _string(body.get("system"), "system", where):
        parts.append(Part(f"system: {system}\n", trained=False))
    for number, turn in enumerate(turns, start=1):
        if not isinstance(turn, dict) or role not in turn or content not in turn:
            raise UsageError(
                f"turn {number} of {key} lacks {role!r} or {content!r}",
                where=where,
                expected=RECORD,
            )
        speaker = turn[role]
        if not isinstance(speaker, str) or speaker not in ROLES:
            raise UsageError(
                f"turn {number} of {key} is by {speaker!r}",
                where=where,
                expected=f"one of {', '.join(sorted(ROLES))}",
            )
        text = _string(turn[content], f"turn {number}", where)
        parts.append(Part(f"{speaker}: ", trained=False))
        parts.append(Part(f"{text}\n", trained=speaker in ANSWERS))
    return Document(tuple(parts))
