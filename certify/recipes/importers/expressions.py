"""Values of shell expressions: quoting, expansion and arithmetic, as far as they can be known.

Anything that needs a program to run (command substitution, arguments, files) becomes
`values.UNKNOWN`. Work is bounded, so that a hostile script ends in an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.importers import arithmetic
from certify.recipes.importers.values import (
    UNKNOWN,
    Origin,
    Piece,
    Value,
    Word,
    marked,
    split_words,
    text_of,
)

if TYPE_CHECKING:
    from certify.recipes.importers.shell_facts import ShellScript

_MAX_STEPS = 50_000
_MAX_DEPTH = 60
_MAX_VALUE = 1 << 17
_MAX_WORDS = 20_000
# Variables that the surroundings of a script set; unassigned ones that are not among them are
# empty when it runs.
WELL_KNOWN = frozenset(
    ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "USER", "PWD", "OLDPWD", "SHELL", "HOSTNAME",
     "TMPDIR", "LANG", "RANDOM", "PPID", "UID", "BASH_SOURCE", "FUNCNAME", "LINENO", "SECONDS",
     "IFS")
)  # fmt: skip
_WELL_KNOWN_PREFIXES = ("ASCEND_", "SLURM_", "HCCL_", "CUDA_", "MASTER_", "NODE_", "VC_")
_SUBSCRIPT = re.compile(r"\$\{(?P<length>#?)(?P<name>\w+)\[(?P<index>[@*]|\d+)\]\}")


class Expressions:
    """Works out expressions against the variables that a script has assigned so far."""

    def __init__(self, script: ShellScript) -> None:
        self.script = script
        self.file = script.file
        self.steps = 0
        self.depth = 0
        self.arrays: dict[str, list[Word]] = {}

    def origin(self, node: Any, offset_lines: int = 0) -> Origin:
        return Origin(self.file, node.start_point[0] + 1 + offset_lines)

    def step(self, node: Any) -> None:
        self.steps += 1
        if self.steps > _MAX_STEPS or self.depth > _MAX_DEPTH:
            raise UsageError(
                "the script is too deeply nested or too long to be read",
                where=f"{self.file}:{node.start_point[0] + 1}",
                expected=f"at most {_MAX_STEPS} steps and {_MAX_DEPTH} levels",
            )

    def text(self, node: Any) -> str:
        raw: bytes = node.text
        return raw.decode("utf-8", errors="replace")

    def bounded(self, value: Value, node: Any) -> Value:
        if sum(len(piece.text) for piece in value) > _MAX_VALUE or len(value) > _MAX_WORDS:
            raise UsageError(
                "a value grows beyond any bound",
                where=f"{self.file}:{node.start_point[0] + 1}",
                expected=f"at most {_MAX_VALUE} characters",
            )
        return value

    def words(self, nodes: list[Any]) -> list[Word]:
        words: list[Word] = []
        for node in nodes:
            words += self.array_words(node) or split_words(self.value(node))
            if len(words) > _MAX_WORDS:
                self.steps = _MAX_STEPS
                self.step(node)
        return words

    def array_words(self, node: Any) -> list[Word]:
        """The words of ``"${name[@]}"``, quoted or not; empty for anything else."""
        inner = node
        if node.type == "string" and len(node.named_children) == 1:
            inner = node.named_children[0]
        name = self.whole_array(inner)
        if name is None:
            return []
        if name not in self.arrays and inner is node:
            # A plain variable is an array of one element; unquoted it is split as usual.
            return split_words(self.expand(name, node))
        self.used(name, node)
        words = self.arrays.get(name, [])
        if inner is node:
            pieces = [(Piece(word.text, word.origin, split=True),) for word in words]
            return [part for piece in pieces for part in split_words(piece)]
        return words

    def whole_array(self, node: Any) -> str | None:
        """The name in ``${name[@]}`` or ``${name[*]}``, None for anything else."""
        if node.type != "expansion" or len(node.named_children) != 1:
            return None
        subscript = node.named_children[0]
        if subscript.type != "subscript" or self.text(subscript)[-3:] not in ("[@]", "[*]"):
            return None
        if [child.type for child in node.children if not child.is_named] != ["${", "}"]:
            return None
        return self.text(subscript.named_children[0])

    def subscripted(self, node: Any) -> Value:
        """``${#name[@]}`` and ``${name[0]}`` of an array of the script; else unknown."""
        found = _SUBSCRIPT.fullmatch(self.text(node))
        if not found or found["name"] not in self.arrays:
            self.used_inside(node)
            return self.unknown(node)
        words, index = self.arrays[found["name"]], found["index"]
        self.used(found["name"], node)
        if found["length"]:
            return (Piece(str(len(words)), self.origin(node)),)
        if index.isdigit() and int(index[:6]) < len(words):
            return (Piece(words[int(index[:6])].text, self.origin(node), split=True),)
        return self.unknown(node)

    def used(self, name: str, node: Any) -> None:
        self.script.uses.setdefault(name, self.origin(node))

    def literal(self, raw: str, node: Any, line: int, quoted: bool) -> list[Piece]:
        """Pieces of literal text that starts at ``line``, one a line, escapes taken out."""
        pieces: list[Piece] = []
        current: list[str] = []
        i = 0
        while i < len(raw):
            char = raw[i]
            if char == "\\" and i + 1 < len(raw):
                after = raw[i + 1]
                if after == "\n":
                    pieces.append(Piece("".join(current), Origin(self.file, line)))
                    current, line = [], line + 1
                elif quoted and after not in '$`"\\':
                    current += [char, after]
                else:
                    current.append(after)
                i += 2
                continue
            current.append(char)
            i += 1
            if char == "\n":
                pieces.append(Piece("".join(current), Origin(self.file, line)))
                current, line = [], line + 1
        pieces.append(Piece("".join(current), Origin(self.file, line)))
        return pieces

    def unknown(self, node: Any) -> Value:
        return (Piece(UNKNOWN, self.origin(node), split=True),)

    def value(self, node: Any) -> Value:
        """The value of an expression, as far as it can be known."""
        self.step(node)
        self.depth += 1
        kind = node.type
        if kind in ("word", "number", "variable_name", "command_name", "extglob_pattern", "regex"):
            result: Value = tuple(
                self.literal(self.text(node), node, node.start_point[0] + 1, quoted=False)
            )
        elif kind == "raw_string":
            result = self.raw(self.text(node)[1:-1], node)
        elif kind == "string":
            result = self.string(node)
        elif kind == "concatenation":
            result = tuple(piece for child in node.children for piece in self.value(child))
        elif kind == "simple_expansion":
            result = self.expand(self.text(node)[1:], node)
        elif kind == "expansion":
            result = self.expansion(node)
        elif kind == "arithmetic_expansion":
            number = arithmetic.number(node, self.value, self.text)
            shown = UNKNOWN if number is None else str(number)
            result = (Piece(shown, self.origin(node)),)
        elif kind in ("unary_expression", "binary_expression", "ansi_c_string"):
            result = self.raw(self.text(node), node)
        else:
            self.used_inside(node)
            result = self.unknown(node)
        self.depth -= 1
        return self.bounded(result, node)

    def used_inside(self, node: Any) -> None:
        """Note the variables that a part we do not work out refers to."""
        stack, seen = [node], 0
        while stack and seen < 1000:
            inner = stack.pop()
            seen += 1
            if inner.type in ("simple_expansion", "expansion"):
                for child in inner.named_children:
                    if child.type == "variable_name":
                        self.used(self.text(child), inner)
            stack += inner.named_children

    def raw(self, text: str, node: Any) -> Value:
        line = node.start_point[0] + 1
        lines = text.split("\n")
        last = len(lines) - 1
        return tuple(
            Piece(part + ("\n" if i < last else ""), Origin(self.file, line + i))
            for i, part in enumerate(lines)
        )

    def string(self, node: Any) -> Value:
        """A double-quoted string; what stands between expansions is literal, blanks included."""
        data: bytes = node.text
        base, line = node.start_byte, node.start_point[0] + 1
        end = len(data) - 1 if data.endswith(b'"') and len(data) > 1 else len(data)
        pieces: list[Piece] = []
        at = 1

        def literal(until: int) -> None:
            start_line = line + data[:at].count(b"\n")
            raw = data[at:until].decode("utf-8", errors="replace")
            pieces.extend(self.literal(raw, node, start_line, quoted=True))

        for child in node.named_children:
            if child.type == "string_content":
                continue
            literal(max(at, child.start_byte - base))
            pieces += marked(self.value(child), False)
            at = child.end_byte - base
        literal(end)
        return tuple(pieces) or (Piece("", self.origin(node)),)

    def expand(self, name: str, node: Any) -> Value:
        """``$name``: its value, nothing if the script leaves it unassigned, unknown if outside."""
        if not (name.isidentifier() and name.isascii()):
            return self.unknown(node)
        self.used(name, node)
        if name in self.script.variables:
            return marked(self.script.variables[name], True)
        if name in WELL_KNOWN or name.startswith(_WELL_KNOWN_PREFIXES):
            return self.unknown(node)
        self.script.unassigned.setdefault(name, self.origin(node))
        return ()

    def expansion(self, node: Any) -> Value:
        """``${name}`` and ``${name:-default}``; other forms are unknown."""
        children = node.named_children
        operators = [child.type for child in node.children if not child.is_named]
        if not children or children[0].type != "variable_name":
            return self.subscripted(node)
        name = self.text(children[0])
        if operators == ["${", "}"]:
            return self.expand(name, node)
        if ":-" in operators or "-" in operators:
            self.used(name, node)
            known = self.script.variables.get(name, ())
            if text_of(known):
                return marked(known, True)
            # An unquoted default is split like any unquoted expansion.
            return tuple(
                piece
                for child in children[1:]
                for piece in marked(self.value(child), "string" not in child.type)
            )
        self.used(name, node)
        return self.unknown(node)
