"""The pasted text made readable: decoding, ANSI codes, wide punctuation, size limits."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHARS = 24_000_000
# Lines that the formats look at; error texts are searched for in the whole text.
_HEAD_LINES, _TAIL_LINES = 30_000, 30_000
_LONG_LINE, _LONG_PATH = 4_000, 16_000
_PIECE, _LONGEST_ESCAPE = 65_536, 256
_ANSI = re.compile(
    r"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,2}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])"
)
# Wide punctuation of Chinese text to its ASCII form: positions do not move.
_WIDE = {
    "\uff1a": ":", "\uff1d": "=", "\uff08": "(", "\uff09": ")", "\uff0c": ",", "\uff1b": ";",
    "\u3001": ",", "\u3000": " ", "\xa0": " ", "\u2019": "'", "\u2018": "'", "\u201c": '"',
    "\u201d": '"', "\uff1e": ">", "\uff1c": "<", "\uff0b": "+", "\uff0d": "-", "\u2013": "-",
    "\u2014": "-", "\ufeff": "", "\u200b": "", "\uff5c": "|", "\uff0e": ".", "\u2502": "|",
    "\u2503": "|", "\u2551": "|",
}  # fmt: skip


def decode(raw: bytes) -> str:
    """UTF-8 or UTF-16 (by its mark), else GB 18030 if that fits, else UTF-8 with replacements."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if b"\0" not in raw[:4096]:
        try:
            return raw.decode("gb18030")
        except UnicodeDecodeError:
            pass
    return raw.decode("utf-8", "replace")


def clean(text: str) -> str:
    """Without ANSI codes, carriage returns and wide punctuation; cut to `MAX_CHARS` in the
    middle, since both ends matter."""
    if len(text) > MAX_CHARS:
        half = MAX_CHARS // 2
        text = text[:half] + "\n" + text[-half:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = "".join(_ANSI.sub("", piece) for piece in _pieces(text))
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii():
        for wide, plain in _WIDE.items():
            if wide in text:
                text = text.replace(wide, plain)
    return text


def _pieces(text: str) -> Iterator[str]:
    """Parts of which no escape sequence reaches over two: an expression holds all that it cuts
    out of one text at once, which may be many times the text."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text):
            at = text.rfind("\x1b", end - _LONGEST_ESCAPE, end)
            if at >= 0 and text.startswith("\\", at + 1):
                at = text.rfind("\x1b", end - 2 * _LONGEST_ESCAPE, at)
            end = at if at > start else end
        yield text[start:end]
        start = end


def take_lines(text: str) -> tuple[list[str], int]:
    """The lines, and how many were left out of the middle of a very long text.

    Very long lines lose their middle too; path variables may be longer than other lines.
    """
    left_out = 0
    if text.count("\n") > _HEAD_LINES + _TAIL_LINES:
        at, end = -1, len(text)
        for _ in range(_HEAD_LINES):
            at = text.find("\n", at + 1)
        for _ in range(_TAIL_LINES):
            end = text.rfind("\n", 0, end)
        left_out = text.count("\n", at, end)
        text = text[:at] + text[end:]
    lines = text.split("\n")
    if len(text) > _LONG_LINE:
        lines = [line if len(line) <= _LONG_LINE else _cut(line) for line in lines]
    return lines, left_out


def _cut(line: str) -> str:
    if "PATH=" in line[:80]:
        return line[:_LONG_PATH]
    return line[: _LONG_LINE - 1000] + " " + line[-999:]


def looks_binary(text: str) -> bool:
    """Whether the start of the text is mostly unprintable: nothing to read there."""
    head = text[:4096]
    odd = sum(1 for c in head if c == "\ufffd" or (ord(c) < 32 and c not in "\n\t\r\x1b"))
    return len(head) > 64 and odd > len(head) * 0.2
