"""What git says of a checkout: ``git branch``, ``git status`` and ``git rev-parse``, as pasted.

The project is the last known one in the command, in the prompt before it, or in the ``cd`` that
came before; text that names none of them says nothing.
"""

from __future__ import annotations

import re

from certify.environment.report.block import Block, Format
from certify.environment.report.collected import COMMIT, TREES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_COMMAND = re.compile(r"\bgit\b(?:\s+-C\s+\S+)?\s+(branch|status|rev-parse|describe)\b")
_WORD = re.compile(r"[\w.-]+")
_CD = re.compile(r"\bcd\s+\S+")
_LINES_OF_OUTPUT = 60
_LINES_BEFORE = 20
_STARRED = re.compile(r"^\s*\*\s+(?:\((?:HEAD )?[^()]*?\bat (\S+?)\)|(\S+))\s*$")
_BRANCH_OF_STATUS = re.compile(r"^\s*(?:#\s*)?(?:On branch|位于分支)\s+(\S+)\s*$")
_DETACHED = re.compile(r"^\s*(?:#\s*)?(?:HEAD detached at|头指针分离于)\s*(\S+)\s*$")
_ONE_NAME = re.compile(r"^\s*([\w./-]+)\s*$")


def _starts(line: str) -> bool:
    return "git" in line and len(line) < 1000 and _COMMAND.search(line) is not None


def _project(text: str) -> str | None:
    names = [word.lower() for word in _WORD.findall(text) if word.lower() in TREES]
    return names[-1] if names else None


def _project_of(block: Block) -> str | None:
    found = _project(block.lines[block.start])
    at = block.start - 1
    while found is None and at >= max(0, block.start - _LINES_BEFORE):
        line = block.lines[at]
        if len(line) < 1000 and _CD.search(line):
            return _project(line)
        at -= 1
    return found


def _head(line: str, command: str) -> str | None:
    """The branch, tag or commit that a line of output names as the one in use."""
    if command == "branch" and (match := _STARRED.match(line)):
        return match.group(1) or match.group(2)
    if command == "status":
        match = _BRANCH_OF_STATUS.match(line) or _DETACHED.match(line)
        return match.group(1) if match else None
    return None


def _read(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    line = block.lines[block.start]
    match = _COMMAND.search(line)
    project = _project_of(block)
    if match is None or project is None:
        return None
    command = match.group(1)
    single = command in ("rev-parse", "describe") or "--show-current" in line
    last = min(len(block.lines), block.start + 1 + _LINES_OF_OUTPUT)
    for at in range(block.start + 1, last):
        text = block.lines[at]
        if len(text) > 300 or _COMMAND.search(text) or not text.strip():
            break
        if single:
            one = _ONE_NAME.match(text)
            head = one.group(1) if one else None
        else:
            head = _head(text, command)
        if head is not None:
            version = f"commit {head[:12]}" if COMMIT.fullmatch(head) else head
            out.add(TREES[project], version, block.source(at - block.start), "stated")
            block.end = at + 1
            return "read", ""
        if single:
            break
    return None


GIT = Format(_starts, _read)
