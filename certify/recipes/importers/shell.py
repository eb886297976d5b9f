"""Read a shell script without running it: what it assigns, exports, sources and would start.

The text is parsed with tree-sitter's grammar of bash. Assignments, quoting, expansions, integer
arithmetic and simple tests are worked out as bash would. Loops are read once, branches whose test
is unknown are both read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.importers import arithmetic
from certify.recipes.importers.expressions import Expressions
from certify.recipes.importers.shell_facts import Assignment, Command, ShellScript
from certify.recipes.importers.values import Origin, Piece, Value, Word, marked, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_SCRIPT = 1 << 16
_MAX_SIGNS = 400
# A template's ``NAME=<address>``: bash would take the sign for a redirection.
_PLACEHOLDER = re.compile(r"(?m)^([ \t]*(?:export[ \t]+)?\w+=)<([^<>'\n]*)>")


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


class _Reader(Expressions):
    """Walks the syntax tree of one script and of what it sources."""

    def __init__(self, script: ShellScript, include: Callable[[str], tuple[str, str] | None]):
        super().__init__(script)
        self.include = include
        self.certain = True
        self.pipefail = False
        self.functions: dict[str, Any] = {}

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

    def on_for_statement(self, node: Any) -> None:
        """The loop's variable has a value that only a run could tell."""
        variable = node.child_by_field_name("variable")
        if variable is not None:
            self.script.variables[self.text(variable)] = self.unknown(node)
        self.uncertain(node)

    on_c_style_for_statement = on_while_statement = uncertain
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
            elements = [child for child in value_node.named_children if child.type != "comment"]
            words = self.words(elements)
            joined = " ".join(word.text for word in words)
            more = any(child.type == "+=" for child in node.children)
            if more and self.script.variables.get(name):
                # The joined text goes on after what the array has so far.
                joined = " " + joined
            self.arrays[name] = [*self.arrays.get(name, []), *words] if more else words
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
            self.assigned_by(words, node)
            self.builtin(words, node)

    def assigned_by(self, words: list[Word], node: Any) -> None:
        """Variables that a builtin sets to what only a run could tell."""
        known = [word.text for word in words if word.known]
        plain = [text for text in known[1:] if not text.startswith("-")]
        if known[:1] in (["read"], ["mapfile"], ["readarray"]):
            names = plain
        elif known[:1] == ["getopts"]:
            names = [*plain[1:2], "OPTARG", "OPTIND"]
        elif known[:2] == ["printf", "-v"]:
            names = plain[:1]
        else:
            return
        for name in names:
            if name.isidentifier():
                self.script.variables[name] = self.unknown(node)

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
