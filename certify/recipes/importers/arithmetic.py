"""Integer arithmetic and simple tests of bash, worked out on the syntax tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.recipes.importers.values import UNKNOWN, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from certify.recipes.importers.values import Value

    ValueOf = Callable[[Any], Value]
    TextOf = Callable[[Any], str]

_LIMIT = 1 << 63


def _divide(a: int, b: int) -> int | None:
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: None if b == 0 else a - b * (_divide(a, b) or 0),
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def _integer(text: str) -> int | None:
    text = text.strip()
    digits = text[1:] if text[:1] in "+-" else text
    if digits.isascii() and digits.isdigit() and len(digits) < 20:
        return int(text)
    return None


def number(node: Any, value: ValueOf, text: TextOf) -> int | None:
    """The integer that an arithmetic expression has, None where it cannot be known."""
    kind = node.type
    if kind in ("arithmetic_expansion", "parenthesized_expression"):
        if len(node.named_children) != 1:
            return None
        return number(node.named_children[0], value, text)
    if kind == "binary_expression" and len(node.children) == 3:
        left, operator, right = node.children
        a, b = number(left, value, text), number(right, value, text)
        apply = _BINARY.get(text(operator))
        if a is None or b is None or apply is None:
            return None
        result = apply(a, b)
        return result if result is not None and abs(result) < _LIMIT else None
    if kind == "unary_expression" and text(node.children[0]) == "-":
        inner = number(node.children[-1], value, text)
        return None if inner is None else -inner
    if kind == "variable_name":
        return _integer(text_of(value(_AsExpansion(node))))
    if kind in ("number", "word", "simple_expansion", "expansion", "string"):
        return _integer(text_of(value(node)))
    return None


class _AsExpansion:
    """A bare name inside ``$((...))`` read as ``$name``."""

    type = "simple_expansion"

    def __init__(self, node: Any) -> None:
        self.text = b"$" + node.text
        self.start_point = node.start_point
        self.named_children = [node]
        self.children = [node]


def test(node: Any, value: ValueOf, text: TextOf) -> bool | None:
    """What ``[ ... ]`` or ``[[ ... ]]`` with this content says, None where it is unknown."""
    if node.type == "binary_expression" and len(node.children) == 3:
        left, operator, right = node.children
        a, b = text_of(value(left)), text_of(value(right))
        if UNKNOWN in a + b:
            return None
        sign = text(operator)
        if sign in _COMPARE:
            x, y = _integer(a), _integer(b)
            return None if x is None or y is None else _COMPARE[sign](x, y)
        return {"=": a == b, "==": a == b, "!=": a != b}.get(sign)
    if node.type == "unary_expression" and len(node.children) == 2:
        sign, operand = text(node.children[0]), node.children[1]
        content = text_of(value(operand))
        if UNKNOWN in content:
            return None
        return {"-z": content == "", "-n": content != ""}.get(sign)
    return None
