"""The tables of the criteria pages, generated so that page and file agree.

``python -m certify.criteria.page FILE`` puts them between the two markers of FILE: in Chinese for a
page in a folder ``zh``. Texts of gates are those of ``certify explain``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from certify.criteria.explained import Explained, explain_gate
from certify.criteria.load import ANY, SCALES, load_criteria

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certify.criteria.load import Criteria, Gate, Threshold

BEGIN = "<!-- generated from the criteria: begin -->"
END = "<!-- generated from the criteria: end -->"


# Fixed words of the page; reasons and sources of numbers are in English in either language.
_CHINESE = {
    "Version": "版本", "Required gates": "必需的判据", "What a pass says": "通过意味着什么",
    "gate": "判据", "scale": "规模", "says exactly": "确切含义", "and": "并且",
    "A FAIL usually means: ": "不合格通常意味着：", "threshold": "限值", "value": "数值",
    "unit": "单位", "where": "适用范围", "reason": "理由", "source": "来源", "all": "全部",
    "Public cases that it would have shown:": "本判据本可揭示的公开案例：",
}  # fmt: skip


def tables(criteria: Criteria, lang: str = "en") -> str:
    """Scales, claims, and for every gate its rule, thresholds, lists, what a FAIL means and the
    public cases. lang: ``en`` or ``zh``."""
    parts = [
        f"{_word('Version', lang)} {criteria.version}, sha256 `{criteria.sha256}`.",
        f"### {_word('Required gates', lang)}\n\n" + _requirements(criteria, lang),
        f"### {_word('What a pass says', lang)}\n\n" + _claims(criteria, lang),
        *(_gate(criteria, gate, lang) for gate in criteria.gates),
    ]
    return "\n\n".join(parts)


def _word(text: str, lang: str) -> str:
    return _CHINESE[text] if lang == "zh" else text


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _requirements(criteria: Criteria, lang: str) -> str:
    rows = []
    for gate in criteria.gates:
        cells = [f"[{gate.id}](#{gate.id})"]
        for scale in SCALES:
            found = [row for row in gate.requirement if row.scale == scale]
            cells.append("; ".join(_requirement(row.stage, row.status) for row in found))
        rows.append(cells)
    return _table((_word("gate", lang), *SCALES), rows)


def _requirement(stage: str, status: str) -> str:
    return status if stage == ANY else f"{stage}: {status}"


def _claims(criteria: Criteria, lang: str) -> str:
    return _table(
        [_word(text, lang) for text in ("scale", "says exactly", "and")],
        [(c.scale, c.says.replace("{device}", "*device*"), c.limits) for c in criteria.claims],
    )


def _gate(criteria: Criteria, gate: Gate, lang: str) -> str:
    said = explain_gate(gate.id, lang, criteria.version)
    assert said is not None
    means = _word("A FAIL usually means: ", lang) + said.meaning
    title = gate.id if lang == "en" else f'<a id="{gate.id}"></a>{gate.id}（{said.title}）'
    parts = [f"### {title}", said.rule, means]
    reasons = [
        f"- {row.scale}{'' if row.stage == ANY else f', {row.stage}'}: {row.status}, {row.reason}"
        + (f" (taken over: {', '.join(row.waived)})" if row.waived else "")
        for row in gate.requirement
    ]
    parts.append("\n".join(reasons))
    rows = [_threshold(row, lang) for row in criteria.thresholds if row.gate == gate.id]
    if rows:
        head = ("threshold", "value", "unit", "where", "reason", "source")
        parts.append(_table([_word(text, lang) for text in head], rows))
    lists = [
        f"- {row.name} ({row.when}): {', '.join(row.values)}; {row.reason}"
        for row in criteria.names
        if row.gate == gate.id
    ]
    parts += ["\n".join(lists)] if lists else []
    return "\n\n".join([*parts, *_cases(said, lang)])


def _cases(said: Explained, lang: str) -> list[str]:
    lines = [f"- [{case.ref}]({case.url}): {case.text}" for case in said.cases]
    opening = _word("Public cases that it would have shown:", lang)
    return [opening, "\n".join(lines)] if lines else []


def _threshold(row: Threshold, lang: str) -> list[str]:
    where = [value for value in (row.precision, row.stage, row.scale) if value != ANY]
    value = f"{row.value:g}"
    covers = ", ".join(where) or _word("all", lang)
    return [row.name, value, row.unit, covers, row.reason, row.source]


def main(words: Sequence[str]) -> int:
    """Rewrite the generated part of a page."""
    path = Path(words[0])
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    lang = "zh" if path.resolve().parent.name == "zh" else "en"
    body = f"{before}{BEGIN}\n\n{tables(load_criteria(), lang)}\n\n{END}{after}"
    path.write_text(body, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
