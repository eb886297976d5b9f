"""Read a shell script without running it: what it assigns, exports, sources and would start.

The text is parsed with tree-sitter's grammar of bash. Assignments, quoting, expansions, integer
arithmetic and simple tests are worked out as bash would; anything that needs a program to run
(command substitution, arguments, files) becomes `values.UNKNOWN`. Loops are read once, branches
whose test is unknown are both read. Work is bounded, so that a hostile script ends in an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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
    from collections.abc import Callable

_MAX_SCRIPT = 1 << 16
_MAX_SIGNS = 400
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
# A template's ``NAME=<address>``: bash would take the sign for a redirection.
_PLACEHOLDER = re.compile(r"(?m)^([ \t]*(?:export[ \t]+)?\w+=)<([^<>'\n]*)>")


@dataclass(frozen=True)
class Assignment:
    """name = value; certain is False inside a branch or loop whose turn is unknown."""

    name: str
    value: str
    origin: Origin
    exported: bool
    certain: bool


@dataclass(frozen=True)
class Command:
    """A command with its words, assignments before it (``A=1 cmd``) and what it pipes into.

    guarded: its failure is looked at (``||``, ``if``); pipefail: ``set -o pipefail`` is on.
    """

    words: tuple[Word, ...]
    origin: Origin
    env: dict[str, str] = field(default_factory=dict)
    pipes_into: tuple[str, ...] = ()
    pipefail: bool = False
    redirects: tuple[str, ...] = ()


@dataclass
class ShellScript:
    """What a script says, in the order in which it says it."""

    file: str
    text: str
    assignments: list[Assignment] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    uses: dict[str, Origin] = field(default_factory=dict)
    unassigned: dict[str, Origin] = field(default_factory=dict)
    missing_sources: list[Word] = field(default_factory=list)
    broken: list[Origin] = field(default_factory=list)
    placeholders: list[Origin] = field(default_factory=list)
    crlf: bool = False
    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)

    def env(self) -> dict[str, Assignment]:
        """The last assignment of every exported variable."""
        return {a.name: a for a in self.assignments if a.name in self.exported}


def _refuse_hostile(text: str, file: str) -> None:
    """Raise UsageError for a text on which the parser would take very long or crash.

    Its time grows with the square of unmatched operators; the largest published script has 6 KB
    and 16 of one kind.
    """
    if len(text) > _MAX_SCRIPT:
        found, expected = f"the script has {len(text)} characters", f"{_MAX_SCRIPT} at most"
        raise UsageError(found, where=file, expected=expected)
    for sign in "|<>()[]":
        count = text.count(sign)
        if count > _MAX_SIGNS:
            found = f"the script has {count} times {sign!r}: unlike any training script"
            raise UsageError(found, where=file, expected=f"{_MAX_SIGNS} at most")


def _parse(text: str, file: str) -> Any:
    _refuse_hostile(text, file)
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        raise UsageError(
            f"reading a shell script needs tree-sitter ({error})",
            where="certify recipes",
            expected="the extra [import]",
            hint='pip install "ascend-certify[import]"',
        ) from error
    language = tree_sitter.Language(tree_sitter_bash.language())
    return tree_sitter.Parser(language).parse(text.encode("utf-8", errors="replace")).root_node


class _Reader:
    """Walks the syntax tree of one script and of what it sources."""

    def __init__(self, script: ShellScript, include: Callable[[str], tuple[str, str] | None]):
        self.script = script
        self.include = include
        self.file = script.file
        self.steps = 0
        self.depth = 0
        self.certain = True
        self.pipefail = False
        self.functions: dict[str, Any] = {}
        self.arrays: dict[str, list[Word]] = {}

    # -- bookkeeping -------------------------------------------------------------------------

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

    # -- statements --------------------------------------------------------------------------

    def run(self, node: Any) -> None:
        """Read a statement or a list of them."""
        self.step(node)
        handler = getattr(self, f"on_{node.type}", None)
        self.depth += 1
        if handler is not None:
            handler(node)
        elif node.type == "ERROR":
            self.script.broken.append(self.origin(node))
            self.children(node)
        elif node.is_named and node.type != "comment":
            self.children(node)
        self.depth -= 1

    def children(self, node: Any) -> None:
        for child in node.named_children:
            self.run(child)

    def uncertain(self, node: Any) -> None:
        before, self.certain = self.certain, False
        self.children(node)
        self.certain = before

    on_for_statement = on_c_style_for_statement = on_while_statement = uncertain
    on_case_statement = on_subshell = uncertain

    def on_function_definition(self, node: Any) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[self.text(name)] = body

    def on_if_statement(self, node: Any) -> None:
        """Read the branch that is taken, or all of them when no test can be worked out."""
        branch: list[Any] = []
        taken: bool | None = self.test(node.child_by_field_name("condition"))
        for child in node.named_children:
            if child == node.child_by_field_name("condition"):
                continue
            if child.type in ("elif_clause", "else_clause"):
                if taken is True:
                    break
                if taken is False:
                    branch.clear()
                tests = [c for c in child.named_children if c.type == "test_command"]
                if child.type == "elif_clause":
                    outcome = self.test(tests[0] if tests else None)
                    taken = outcome if taken is False else None
                elif taken is False:
                    taken = True
            branch.append(child)
        if taken is False:
            return
        before, self.certain = self.certain, self.certain and taken is True
        for child in branch:
            self.run(child)
        self.certain = before

    def on_test_command(self, node: Any) -> None:
        self.test(node)

    def test(self, node: Any) -> bool | None:
        """What a test would say, None where only running the script could tell."""
        if node is None or node.type != "test_command" or len(node.named_children) != 1:
            return None
        return arithmetic.test(node.named_children[0], self.value, self.text)

    def on_pipeline(self, node: Any) -> None:
        stages = [child for child in node.named_children if child.type != "comment"]
        first = len(self.script.commands)
        for stage in stages:
            self.run(stage)
        made = self.script.commands[first:]
        if len(made) == len(stages):
            names = [command.words[0].text if command.words else "" for command in made]
            for i, command in enumerate(made):
                self.script.commands[first + i] = Command(
                    command.words, command.origin, command.env, tuple(names[i + 1 :]),
                    command.pipefail, command.redirects,
                )  # fmt: skip

    def on_redirected_statement(self, node: Any) -> None:
        first = len(self.script.commands)
        targets = []
        for child in node.named_children:
            if child.type == "file_redirect":
                destination = child.child_by_field_name("destination")
                if destination is not None and destination.type != "number":
                    targets.append(text_of(self.value(destination)))
            elif child.type not in ("heredoc_redirect", "herestring_redirect"):
                self.run(child)
        for i, command in enumerate(self.script.commands[first:], first):
            self.script.commands[i] = Command(
                command.words, command.origin, command.env, command.pipes_into, command.pipefail,
                tuple(targets),
            )  # fmt: skip

    def on_variable_assignment(self, node: Any, exported: bool = False) -> None:
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None or name_node.type != "variable_name":
            return
        name = self.text(name_node)
        value: Value = ()
        if value_node is not None and value_node.type == "array":
            self.arrays[name] = self.words(value_node.named_children)
            joined = " ".join(word.text for word in self.arrays[name])
            value = (Piece(joined, self.origin(value_node)),)
        elif value_node is not None:
            value = self.value(value_node)
        if any(child.type == "+=" for child in node.children):
            value = self.script.variables.get(name, ()) + value
        value = self.bounded(marked(value, False), node)
        self.script.variables[name] = value
        if exported:
            self.script.exported.add(name)
        self.script.assignments.append(
            Assignment(name, text_of(value), self.origin(node), exported, self.certain)
        )

    def on_declaration_command(self, node: Any) -> None:
        exported = self.text(node.children[0]) == "export"
        for child in node.named_children:
            if child.type == "variable_assignment":
                self.on_variable_assignment(child, exported)
            elif child.type == "variable_name" and exported:
                self.script.exported.add(self.text(child))

    def on_unset_command(self, node: Any) -> None:
        for child in node.named_children:
            self.script.variables.pop(self.text(child), None)
            self.script.exported.discard(self.text(child))

    def on_command(self, node: Any) -> None:
        env: dict[str, str] = {}
        parts: list[Any] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None and value is not None:
                    env[self.text(name)] = text_of(self.value(value))
            elif child.type == "command_name":
                parts += child.children or [child]
            elif not child.type.endswith(("_redirect", "comment")):
                parts.append(child)
        words = self.words(parts)
        command = Command(tuple(words), self.origin(node), env, pipefail=self.pipefail)
        self.script.commands.append(command)
        if words:
            self.builtin(words, node)

    def builtin(self, words: list[Word], node: Any) -> None:
        """Follow what changes how the rest is read: set, source, functions of the script."""
        name = words[0].text
        if name == "set":
            flags = [word.text for word in words[1:]]
            if "pipefail" in flags:
                before = flags[flags.index("pipefail") - 1] if len(flags) > 1 else "-o"
                self.pipefail = before.startswith("-")
        elif name in ("source", ".") and len(words) > 1:
            self.source(words[1], node)
        elif name in self.functions:
            body = self.functions[name]
            self.run(body)

    def source(self, word: Word, node: Any) -> None:
        found = self.include(word.text) if word.known else None
        if found is None:
            self.script.missing_sources.append(word)
            return
        self.step(node)
        before, self.file = self.file, found[0]
        self.depth += 10
        self.run(_parse(found[1], found[0]))
        self.depth -= 10
        self.file = before

    # -- values ------------------------------------------------------------------------------

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
        return self.arrays.get(name, [])

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
            return tuple(piece for child in children[1:] for piece in self.value(child))
        self.used(name, node)
        return self.unknown(node)


def read_script(
    text: str, file: str, include: Callable[[str], tuple[str, str] | None] = lambda name: None
) -> ShellScript:
    """Read a script. include: gives (file, text) of a sourced file by the name it is given.

    Raises UsageError when the script is too large to be read or the extra is not installed.
    """
    script = ShellScript(file, text, crlf="\r\n" in text)
    for found in _PLACEHOLDER.finditer(text):
        script.placeholders.append(Origin(file, text.count("\n", 0, found.start(2)) + 1))
    reader = _Reader(script, include)
    try:
        plain = _PLACEHOLDER.sub(r"\1'\2'", text.replace("\r\n", "\n"))
        reader.run(_parse(plain, file))
    except RecursionError as error:
        raise UsageError("the script is nested too deeply to be read", where=file) from error
    return script
