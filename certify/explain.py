"""What a rule, an environment variable, an error code, a chip, a claim, a conflict or a gate means.

The texts are data beside the matrix (rules.tsv, variables.tsv, error_codes.tsv); this module finds
the entry that a person means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from matrices.load import read_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from matrices.load import Matrix

_TORCH_NPU_ERROR = re.compile(r"ERR(\d{2})(\d{3})")
_INTERNAL = re.compile(r"E[A-Z1-9]9999")
_HCCL_RESULT = re.compile(r"(?:HCCL|HCCLRESULT)[ :_-]*(?:ERROR[ A-Z]*)?(\d{1,2})")


@dataclass(frozen=True)
class Explanation:
    """One entry. kind: rule, variable, error code, chip, claim, conflict or gate; meaning: in the
    asked language; facts: label -> value, in the order to print; rules: ids to look at next."""

    topic: str
    kind: str
    meaning: str
    facts: dict[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()


def explain(topic: str, matrix: Matrix, lang: str = "en") -> Explanation | None:
    """The entry for a topic, None when nothing is known by that name.

    lang: ``en`` or ``zh``, where a text exists in both.
    """
    text = topic.strip()
    finders: tuple[Callable[[str, Matrix, str], Explanation | None], ...] = (
        _rule,
        _variable,
        _error_code,
        _claim,
        _conflict,
        _chip,
        _gate,
    )
    for find in finders:
        found = find(text, matrix, lang)
        if found is not None:
            return found
    return None


def topics() -> list[str]:
    """Every name that `explain` knows, claims left out."""
    from certify.criteria.explained import gate_ids

    names = [row["rule"] for row in read_table("rules")]
    names += [row["name"] for row in read_table("variables")]
    names += [row["code"] for row in read_table("error_codes")]
    names += [row["chip"] for row in read_table("chips")]
    names += gate_ids()
    return names


def _text(row: dict[str, str], lang: str) -> str:
    return row["chinese" if lang == "zh" and row["chinese"] else "english"]


def _given(**facts: str) -> dict[str, str]:
    return {name.replace("_", " "): value for name, value in facts.items() if value}


def _rule(topic: str, matrix: Matrix, lang: str) -> Explanation | None:
    row = next((r for r in read_table("rules") if r["rule"] == topic.lower()), None)
    if row is None:
        return None
    pairs = [
        f"{relation['subject']} with {relation['object']}"
        for relation in matrix.tables["relations"]
        if relation["rule"] == row["rule"]
    ]
    facts = _given(pairs=", ".join(pairs), hint=row["hint"])
    return Explanation(row["rule"], "rule", _text(row, lang), facts)


def _variable(topic: str, matrix: Matrix, lang: str) -> Explanation | None:
    name = topic.lstrip("$").partition("=")[0].upper()
    rows = read_table("variables")
    row = next((r for r in rows if r["name"].upper() == name), None)
    if row is None:
        # An allocator option without the variable that carries it.
        row = next((r for r in rows if r["name"].partition(":")[2].upper() == name), None)
    if row is None or not name:
        return None
    options = [r["name"].partition(":")[2] for r in rows if r["name"].startswith(row["name"] + ":")]
    facts = _given(
        values=row["values"],
        default=row["default"] or "not published",
        conflicts=row["conflicts"],
        needs=row["needs"],
        set_by=row["set_by"] or "user",
        options=", ".join(options),
        source=row["source"],
    )
    return Explanation(row["name"], "variable", _text(row, lang), facts)


def _error_code(topic: str, matrix: Matrix, lang: str) -> Explanation | None:
    code = topic.upper().removeprefix("ERROR CODE").strip(" :")
    rows = {row["code"]: row for row in read_table("error_codes")}
    composed = _TORCH_NPU_ERROR.fullmatch(code)
    if composed:
        return _composed(code, rows, composed[1], composed[2], lang)
    result = _HCCL_RESULT.fullmatch(code)
    if result:
        code = f"HCCL-{int(result[1])}"
    row = rows.get(code) or rows.get(f"-{code}")
    if row is None and _INTERNAL.fullmatch(code):
        meaning = {
            "en": "Internal error of a CANN module; the cause stands in the lines after it.",
            "zh": "CANN 模块内部错误，原因见其后的日志。",
        }[lang if lang == "zh" else "en"]
        return Explanation(code, "error code", meaning)
    if row is None or row["family"].startswith("torch_npu"):
        return None
    facts = _given(family=row["family"], hint=row["hint"], source=row["source"])
    rules = tuple(row["rules"].split(",")) if row["rules"] else ()
    return Explanation(row["code"], "error code", _text(row, lang), facts, rules)


def _composed(
    code: str, rows: dict[str, dict[str, str]], part: str, kind: str, lang: str
) -> Explanation | None:
    """ERRppkkk of torch_npu: two digits name its part, three the kind of failure."""
    where, what = rows.get(f"ERR{part}"), rows.get(f"ERR-{kind}")
    if where is None or what is None:
        return None
    joint = "：" if lang == "zh" else ": "
    facts = _given(hint=what["hint"], source=what["source"])
    rules = tuple(what["rules"].split(",")) if what["rules"] else ()
    meaning = f"{_text(where, lang)}{joint}{_text(what, lang)}"
    return Explanation(code, "error code", meaning, facts, rules)


def _claim(topic: str, matrix: Matrix, lang: str) -> Explanation | None:
    claim = matrix.claim(topic)
    if claim is None:
        return None
    parts = ", ".join(f"{key} {value}" for key, value in claim.components.items())
    where = ", ".join(f"{key} {value}" for key, value in claim.where.items())
    facts = _given(
        state=claim.state, where=where, source=claim.citation(), since=claim.since,
        conflict=claim.conflict, note=claim.note,
    )  # fmt: skip
    return Explanation(claim.id, "claim", f"{claim.kind}: {parts}", facts)


def _conflict(topic: str, matrix: Matrix, lang: str) -> Explanation | None:
    wanted = topic.upper()
    row = next((r for r in matrix.tables["conflicts"] if r["id"].upper() == wanted), None)
    if row is None:
        return None
    claims = ", ".join(claim.id for claim in matrix.history if claim.conflict == row["id"])
    facts = _given(one=row["one"], other=row["other"], handling=row["handling"], claims=claims)
    return Explanation(row["id"], "conflict", row["subject"], facts)


def _chip(topic: str, matrix: Matrix, lang: str) -> Explanation | None:
    """A chip by the exact name that npu-smi prints, with or without ``Ascend``."""
    names = {topic.lower(), topic.lower().removeprefix("ascend").strip(" _-")}
    rows = matrix.tables["chips"]
    row = next((r for r in rows if r["chip"].lower() == topic.lower()), None)
    row = row or next((r for r in rows if r["chip"].lower() in names), None)
    if row is None:
        return None
    dies = "" if row["dies"] in ("", "1") else row["dies"]
    facts = _given(memory_mb=row["memory_mb"], dies=dies, source=f"{row['source']} ({row['date']})")
    product = {"en": "A chip of the product family", "zh": "所属产品系列"}[
        lang if lang == "zh" else "en"
    ]
    return Explanation(row["chip"], "chip", f"{product} {row['product']}.", facts)


def _gate(topic: str, matrix: Matrix, lang: str) -> Explanation | None:
    """A gate of the criteria: rule, what its FAIL means, every number with reason and source."""
    from certify.criteria.explained import explain_gate

    name = topic.lower().replace(" ", "-").replace("_", "-")
    found = explain_gate(name, "zh" if lang == "zh" else "en")
    if found is None:
        return None
    facts = {"a FAIL means": found.meaning}
    for scale, stage, status in found.required:
        facts[f"scale {scale}" + (f", {stage}" if stage else "")] = status
    for name_of, value, where, reason, source in found.thresholds:
        facts[f"limit {name_of} ({where})"] = f"{value}: {reason} [{source}]"
    for case in found.cases:
        facts[f"case {case.ref}"] = f"{case.text} {case.url}"
    return Explanation(found.id, "gate", found.rule, facts)
