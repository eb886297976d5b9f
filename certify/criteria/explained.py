"""What a gate demands and why, for people: the criteria's own texts, Chinese ones, public cases."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from certify.criteria.load import ANY, load_criteria

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from certify.criteria.load import Criteria, Gate, Threshold

SCHEMA = "certify.explained/1"
_WORDS = {
    "zh": {
        "required": "必需", "reported": "仅报告", "on-request": "按需", "not-required": "不要求",
        "all": "全部", "pretrain": "预训练", "sft": "微调",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A defect that became public. ref: ``owner/name#number``; text: what went wrong."""

    ref: str
    text: str

    @property
    def url(self) -> str:
        """Where it is described: an issue's address leads to a pull request of that number too."""
        name, _, number = self.ref.partition("#")
        return f"https://github.com/{name}/issues/{number}"


@dataclass(frozen=True)
class Explained:
    """One gate in one language. thresholds: (name, value with unit, where, reason, source);
    required: (scale, stage, status)."""

    id: str
    title: str
    rule: str
    meaning: str
    thresholds: tuple[tuple[str, str, str, str, str], ...]
    required: tuple[tuple[str, str, str], ...]
    cases: tuple[Known, ...]


@cache
def _texts() -> dict[str, dict[str, Any]]:
    file = resources.files("certify.criteria") / "explained.toml"
    body: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    gates: dict[str, dict[str, Any]] = body["gate"]
    return gates


def explain_gate(name: str, lang: str = "en", version: str = "v1") -> Explained | None:
    """A gate of the criteria, None for an unknown one. lang: ``en`` or ``zh``.

    Reasons and sources of numbers are the criteria's own, in English in either language.
    """
    criteria = load_criteria(version)
    gate = next((gate for gate in criteria.gates if gate.id == name), None)
    if gate is None:
        return None
    texts = _texts()[name]
    chinese = lang == "zh"
    return Explained(
        id=name,
        title=texts["title"] if chinese else gate.title,
        rule=texts["rule"] if chinese else _flowed(gate.rule),
        meaning=texts["meaning"] if chinese else _flowed(gate.meaning),
        thresholds=tuple(_threshold(row, lang) for row in _rows(criteria, gate)),
        required=tuple(
            (row.scale, "" if row.stage == ANY else _word(row.stage, lang), _word(row.status, lang))
            for row in gate.requirement
        ),
        cases=tuple(Known(case["ref"], case[lang]) for case in texts["cases"]),
    )


def gate_ids(version: str = "v1") -> tuple[str, ...]:
    """The gates that `explain_gate` knows, in order."""
    return tuple(gate.id for gate in load_criteria(version).gates)


def _rows(criteria: Criteria, gate: Gate) -> list[Threshold]:
    return [row for row in criteria.thresholds if row.gate == gate.id]


def _threshold(row: Threshold, lang: str) -> tuple[str, str, str, str, str]:
    where = [v for v in (row.precision, row.stage, row.scale) if v != ANY]
    said = ", ".join(_word(part, lang) for part in where) or _word("all", lang)
    return row.name, f"{row.value:g} {row.unit}", said, row.reason, row.source


def _word(text: str, lang: str) -> str:
    return _WORDS.get(lang, {}).get(text, text)


def _flowed(text: str) -> str:
    return " ".join(text.split())
