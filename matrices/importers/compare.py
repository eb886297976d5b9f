"""What a document changes: new, changed, unchanged and dropped statements against the matrix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matrices.importers.documents import Draft
    from matrices.load import Claim, Matrix

# The column that a row is about, in this order of preference, and the files that hold such rows.
_SUBJECTS = (
    ("image", ("cann_images",)),
    ("vllm_ascend", ("vllm_ascend",)),
    ("mindspeed_llm", ("mindspeed_llm",)),
    ("mindspeed_core", ("mindspeed_core",)),
    ("triton_ascend", ("triton_ascend",)),
    ("torch_npu", ("torch_npu",)),
    ("torch_npu_product", ("torch_npu",)),
    ("torch", ("torch_npu_python",)),
)
# Spelled differently between documents that mean the same.
_UNCOMPARED = ("torch_npu_branch", "mooncake")
_PYTHON_RANGE = re.compile(r">=3\.(\d+),(<=?)3\.(\d+)")


@dataclass(frozen=True)
class Difference:
    """kind: new, changed or dropped; draft: what the document says (None when dropped);
    claim: id of the claim that it touches (empty when new); fields: component -> (old, new)."""

    kind: str
    draft: Draft | None
    claim: str
    fields: dict[str, tuple[str, str]]


def differences(drafts: Iterable[Draft], matrix: Matrix, document: str = "") -> list[Difference]:
    """New and changed statements in document order, then claims that the document no longer has.

    document: its file name. Only claims that were read from a document of this name, and whose
    kind of table it still contains, can be dropped.
    """
    drafts = list(drafts)
    answer: list[Difference] = []
    met: set[str] = set()
    asked: set[tuple[str, bool, frozenset[str]]] = set()
    for draft in drafts:
        subject, scopes = subject_of(draft.components)
        rows = [claim for claim in _claims(matrix, scopes) if subject in claim.components]
        asked.add((subject, _is_cell(draft.kind), frozenset(draft.components)))
        same = [claim for claim in rows if _agrees(draft, claim)]
        met.update(claim.id for claim in same)
        if any(claim.state != "superseded" for claim in same):
            continue
        near = _nearest(draft, subject, rows)
        if near is None:
            answer.append(Difference("new", draft, "", {}))
        else:
            met.add(near.id)
            answer.append(Difference("changed", draft, near.id, _fields(draft, near)))
    return answer + _dropped(matrix, asked, met, _file_name(document))


def subject_of(components: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """The component that a statement is about, and the files where such claims stand."""
    names = set(components)
    for key, scopes in _SUBJECTS:
        if key in names:
            return key, scopes
    return next(iter(names)), ()


def _claims(matrix: Matrix, scopes: tuple[str, ...]) -> list[Claim]:
    return [claim for claim in matrix.history if claim.scope in scopes]


def _is_cell(kind: str) -> bool:
    return kind in ("compatible", "incompatible")


def _same_value(stated: str, known: str) -> bool:
    """Whether everything that the document states is known already."""
    return _normal(stated) <= _normal(known)


def _normal(value: str) -> frozenset[str]:
    bounds = _PYTHON_RANGE.fullmatch(value)
    if bounds:
        last = int(bounds[3]) + (bounds[2] == "<=")
        return frozenset(f"3.{minor}" for minor in range(int(bounds[1]), last))
    parts = (part.strip().lower().removeprefix("v") for part in value.split("|"))
    return frozenset(part.replace("core_r", "").replace("core_", "") for part in parts)


def _file_name(path: str) -> str:
    """The name of a document without folder and language: COMPATIBILITY.md of all three."""
    return re.sub(r"\.(en|zh)(?=\.md$)", "", path.strip().rpartition("/")[2].lower())


def _shared(draft: Draft, claim: Claim) -> list[str]:
    return [key for key in draft.components if key in claim.components and key not in _UNCOMPARED]


def _agrees(draft: Draft, claim: Claim) -> bool:
    """Whether a claim already says this: the same kind of statement, equal where both speak."""
    shared = _shared(draft, claim)
    upcoming = draft.state == "upcoming"
    if _is_cell(draft.kind) != _is_cell(claim.kind) or (claim.state == "upcoming") != upcoming:
        return False
    if _is_cell(draft.kind) and draft.kind != claim.kind:
        return False
    wanted = [key for key in draft.components if key not in _UNCOMPARED]
    return len(shared) >= min(2, len(wanted)) and all(
        _same_value(draft.components[key], claim.components[key]) for key in shared
    )


def _nearest(draft: Draft, subject: str, rows: Iterable[Claim]) -> Claim | None:
    """The current claim about the same subject whose values the document changes."""
    candidates = [
        claim
        for claim in rows
        if claim.state in ("current", "preview")
        and _is_cell(claim.kind) == _is_cell(draft.kind)
        and _same_value(draft.components[subject], claim.components[subject])
        and len(_shared(draft, claim)) >= 2
    ]
    if _is_cell(draft.kind):
        # A cell of a cross table is the same cell only when both of its heads are equal.
        candidates = [
            claim
            for claim in candidates
            if all(
                _same_value(draft.components[key], claim.components[key])
                for key in _shared(draft, claim)
            )
        ]
    return max(candidates, key=lambda claim: (len(_shared(draft, claim)), claim.date), default=None)


def _fields(draft: Draft, claim: Claim) -> dict[str, tuple[str, str]]:
    fields = {
        key: (claim.components[key], draft.components[key])
        for key in _shared(draft, claim)
        if not _same_value(draft.components[key], claim.components[key])
    }
    if draft.kind != claim.kind:
        fields["kind"] = (claim.kind, draft.kind)
    return fields


def _dropped(
    matrix: Matrix, asked: set[tuple[str, bool, frozenset[str]]], met: set[str], document: str
) -> list[Difference]:
    answer = []
    for claim in matrix.claims:
        if claim.state != "current" or claim.id in met or _file_name(claim.path) != document:
            continue
        subject, scopes = subject_of(claim.components)
        if claim.scope not in scopes:
            continue
        for asked_subject, cell, keys in asked:
            same_table = asked_subject == subject and cell == _is_cell(claim.kind)
            if same_table and _of_that_table(claim, keys, cell):
                answer.append(Difference("dropped", None, claim.id, {}))
                break
    return answer


def _of_that_table(claim: Claim, keys: frozenset[str], cell: bool) -> bool:
    names = frozenset(claim.components)
    return names == keys if cell else len(names & keys) >= min(3, len(keys))
