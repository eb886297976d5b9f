"""The JSON documents of a campaign folder as frozen dataclasses, read tolerantly.

A page must also come out for a campaign that was cut off or written by another version: what is
missing becomes an empty value here and is said on the page, and what is unknown is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Scalar = float | int | str | bool | None


@dataclass(frozen=True)
class Phase:
    """One phase of ``campaign.json``; times in seconds."""

    name: str
    status: str
    run_id: str
    attempt: int
    wall_s: float
    cpu_s: float
    cached: bool
    reason: str


@dataclass(frozen=True)
class CampaignDocument:
    """``campaign.json``. inject: the fault injected on purpose, empty for none."""

    id: str
    recipe_id: str
    backend: str
    scale: str
    device: str
    stage: str
    status: str
    created_unix_s: float
    command: tuple[str, ...]
    inject: str
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Check:
    """One comparison within a gate. outcome: ok | violated | undecided | reported."""

    name: str
    outcome: str
    value: Scalar
    limit: Scalar
    low: Scalar
    high: Scalar
    n: Scalar
    unit: str
    detail: str


@dataclass(frozen=True)
class GateDocument:
    """One gate of ``verdict.json``."""

    gate: str
    verdict: str
    required: bool
    statistic: Scalar
    low: Scalar
    high: Scalar
    margin: Scalar
    n: Scalar
    unit: str
    reason: str
    checks: tuple[Check, ...]

    def check(self, name: str) -> Check | None:
        """A check by its name."""
        return next((check for check in self.checks if check.name == name), None)


@dataclass(frozen=True)
class VerdictDocument:
    """``verdict.json``. claim: empty unless the verdict entitles to one."""

    verdict: str
    claim: str
    criteria_version: str
    criteria_sha256: str
    gates: tuple[GateDocument, ...]

    def gate(self, name: str) -> GateDocument | None:
        """A gate by its name."""
        return next((gate for gate in self.gates if gate.gate == name), None)


@dataclass(frozen=True)
class Change:
    """One line of the table of how a recipe was scaled down."""

    key: str
    published: Any
    scaled: Any
    rule: str


@dataclass(frozen=True)
class RecipeDocument:
    """``recipe.json``. source: where the published script is, one line."""

    model: str
    source: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class PlanDocument:
    """``plan.json``. runs: phase -> run id; learning_rate: step -> planned rate."""

    runs: Mapping[str, str]
    precision: str
    weights_digest: str
    learning_rate: Mapping[int, float]
    save_step: int | None


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _number(body: Mapping[str, Any], key: str) -> float:
    value = body.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _scalar(body: Mapping[str, Any], key: str) -> Scalar:
    value = body.get(key)
    return value if isinstance(value, (int, float, str, bool)) else None


def _objects(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = body.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, dict) else {}


def campaign_document(body: Mapping[str, Any]) -> CampaignDocument:
    """From the parsed JSON of ``campaign.json``."""
    command = body.get("command")
    return CampaignDocument(
        **{
            key: _text(body, key)
            for key in ("id", "recipe_id", "backend", "scale", "device", "stage", "status")
        },
        created_unix_s=_number(body, "created_unix_s"),
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        inject=_text(body, "inject"),
        phases=tuple(
            Phase(
                name=_text(phase, "name"),
                status=_text(phase, "status"),
                run_id=_text(phase, "run_id"),
                attempt=int(_number(phase, "attempt")),
                wall_s=_number(phase, "wall_s"),
                cpu_s=_number(phase, "cpu_s"),
                cached=phase.get("cached") is True,
                reason=_text(phase, "reason"),
            )
            for phase in _objects(body, "phases")
        ),
    )


def _check(body: Mapping[str, Any]) -> Check:
    return Check(
        name=_text(body, "name"),
        outcome=_text(body, "outcome"),
        **{key: _scalar(body, key) for key in ("value", "limit", "low", "high", "n")},
        unit=_text(body, "unit"),
        detail=_text(body, "detail"),
    )


def verdict_document(body: Mapping[str, Any]) -> VerdictDocument:
    """From the parsed JSON of ``verdict.json``."""
    criteria = _object(body, "criteria")
    return VerdictDocument(
        verdict=_text(body, "verdict"),
        claim=_text(body, "claim"),
        criteria_version=_text(criteria, "version"),
        criteria_sha256=_text(criteria, "sha256"),
        gates=tuple(
            GateDocument(
                gate=_text(gate, "gate"),
                verdict=_text(gate, "verdict"),
                required=gate.get("required") is True,
                **{key: _scalar(gate, key) for key in ("statistic", "low", "high", "margin", "n")},
                unit=_text(gate, "unit"),
                reason=_text(gate, "reason"),
                checks=tuple(map(_check, _objects(gate, "checks"))),
            )
            for gate in _objects(body, "gates")
        ),
    )


def recipe_document(body: Mapping[str, Any]) -> RecipeDocument:
    """From the parsed JSON of ``recipe.json``."""
    published, source = _object(body, "published"), body.get("source")
    if isinstance(source, dict):
        commit = f" @ {source['commit']}" if source.get("commit") else ""
        source = f"{_text(source, 'repo')} {_text(source, 'path')}{commit}"
    return RecipeDocument(
        model=" ".join(filter(None, (_text(published, "name"), _text(published, "size")))),
        source=source if isinstance(source, str) else "",
        changes=tuple(
            Change(_text(row, "key"), row.get("published"), row.get("scaled"), _text(row, "rule"))
            for row in _objects(body, "scaling")
        ),
    )


def plan_document(body: Mapping[str, Any]) -> PlanDocument:
    """From the parsed JSON of ``plan.json``."""
    expected, resume = _object(body, "expected"), body.get("resume")
    if isinstance(resume, list):
        resume = resume[0] if resume else None
    save_step = resume.get("save_step") if isinstance(resume, dict) else None
    return PlanDocument(
        runs={key: str(value) for key, value in _object(body, "runs").items()},
        precision=_text(body, "precision"),
        weights_digest=_text(expected, "weights_digest"),
        learning_rate={
            int(_number(step, "step")): _number(step, "lr") for step in _objects(expected, "steps")
        },
        save_step=save_step if isinstance(save_step, int) else None,
    )
