"""Read a YAML document with the line of every key; no aliases, no tags, bounded depth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from certify.errors import UsageError
from certify.recipes.importers.values import Origin

_MAX_DEPTH = 20
_MAX_NODES = 20_000
# The largest published configuration has 3 KB.
_MAX_TEXT = 1 << 16


@dataclass
class Document:
    """values: nested dicts, lists and scalars; origins: dotted key -> line; repeated: keys that
    occur twice in one mapping (the last counts)."""

    values: dict[str, Any]
    origins: dict[str, Origin] = field(default_factory=dict)
    repeated: list[tuple[str, Origin]] = field(default_factory=list)


class _Builder:
    def __init__(self, file: str, constructor: Any) -> None:
        self.document = Document({})
        self.file = file
        self.constructor = constructor
        self.seen = 0

    def build(self, node: Any, path: str, depth: int) -> Any:
        line = node.start_mark.line + 1
        self.seen += 1
        if depth > _MAX_DEPTH or self.seen > _MAX_NODES:
            raise UsageError("the YAML is too deep or too large", where=f"{self.file}:{line}")
        self.document.origins.setdefault(path, Origin(self.file, line))
        if node.id == "scalar":
            return self.constructor.construct_object(node)
        if node.id == "sequence":
            return [self.build(item, f"{path}[]", depth + 1) for item in node.value]
        table: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if key_node.id == "scalar" else "?"
            inner = f"{path}.{key}" if path else str(key)
            if key in table:
                origin = Origin(self.file, key_node.start_mark.line + 1)
                self.document.repeated.append((inner, origin))
            table[str(key)] = self.build(value_node, inner, depth + 1)
            self.document.origins[inner] = Origin(self.file, key_node.start_mark.line + 1)
        return table


def _refuse_hostile(yaml: Any, text: str, file: str) -> None:
    """Raise UsageError for aliases, tags, and texts whose parsing would not end in time.

    The tokens come one by one, so that a deep or endless text is left early.
    """
    if len(text) > _MAX_TEXT:
        found = f"the YAML has {len(text)} characters"
        raise UsageError(found, where=file, expected=f"{_MAX_TEXT} at most")
    depth = 0
    for count, token in enumerate(yaml.scan(text, Loader=yaml.SafeLoader)):
        line = token.start_mark.line + 1
        kind = type(token).__name__
        depth += ("Start" in kind) - ("End" in kind)
        if kind in ("AliasToken", "AnchorToken", "TagToken"):
            raise UsageError("aliases and tags are not read", where=f"{file}:{line}")
        if depth > 2 * _MAX_DEPTH or count > 10 * _MAX_NODES:
            raise UsageError("the YAML is too deep or too large", where=f"{file}:{line}")


def _refuse_tabs(text: str, file: str) -> None:
    """Raise UsageError for the first line that a tab indents: YAML knows blanks only."""
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise UsageError(
                "a tab indents the line",
                where=f"{file}:{number}",
                expected="blanks: YAML takes no tabs for indentation",
                hint=f"expand -t 2 {file} > blanks.yaml",
            )


def read_yaml(text: str, file: str) -> Document:
    """The document of a YAML text whose top level is a mapping.

    Raises UsageError, naming the line, for text that is not YAML, has aliases or tags, or is not
    a mapping; and when PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise UsageError(
            f"reading YAML needs PyYAML ({error})",
            where="certify recipes",
            expected="the extra [import]",
            hint='pip install "ascend-certify[import]"',
        ) from error
    try:
        _refuse_hostile(yaml, text, file)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None or node.id != "mapping":
            raise UsageError("the YAML is no mapping", where=file, expected="sections with keys")
        builder = _Builder(file, loader)
        builder.document.values = builder.build(node, "", 0)
    except yaml.YAMLError as error:
        _refuse_tabs(text, file)
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
        raise UsageError(f"not YAML: {problem}", where=f"{file}{line}") from error
    except (RecursionError, ValueError, OverflowError) as error:
        raise UsageError(f"not YAML that can be read: {error}", where=file) from error
    return builder.document
