"""What a judgement is made of: checks, findings of gates, the verdict and its JSON form."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certify.criteria.load import Threshold

SCHEMA = "certify.judge/1"
PASS, FAIL, INCONCLUSIVE = "PASS", "FAIL", "INCONCLUSIVE"
NOT_REQUIRED = "NOT REQUIRED"

OK, VIOLATED, UNDECIDED, REPORTED = "ok", "violated", "undecided", "reported"


@dataclass(frozen=True)
class Check:
    """One comparison of a measured value with its limit.

    outcome: ok | violated | undecided (evidence missing or too wide) | reported (decides
    nothing). low, high: interval of the value; n: observations; detail: one clause for people.
    """

    name: str
    outcome: str
    value: float | str | None = None
    limit: float | str | None = None
    detail: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Finding:
    """What a gate found. headline: name of the check that the table shows when nothing is wrong;
    summary: its reason then."""

    checks: tuple[Check, ...]
    headline: str
    summary: str

    @property
    def verdict(self) -> str:
        """FAIL if a check is violated, else INCONCLUSIVE if one is undecided, else PASS."""
        outcomes = {check.outcome for check in self.checks}
        if VIOLATED in outcomes:
            return FAIL
        return INCONCLUSIVE if UNDECIDED in outcomes or OK not in outcomes else PASS

    def shown(self) -> Check | None:
        """The check whose numbers stand for the gate: the first one at fault, else the headline."""
        for outcome in (VIOLATED, UNDECIDED):
            if found := [c for c in self.checks if c.outcome == outcome]:
                return next((c for c in found if c.name == self.headline), found[0])
        return self.headlined()

    def headlined(self) -> Check | None:
        """The headline check, or None when it was not made."""
        return next((c for c in self.checks if c.name == self.headline), None)


def count_text(value: float | None) -> str:
    """A count for people; what is no count stays visible (inf, nan)."""
    return "no" if value is None else f"{value:,.0f}"


def _full(name: str, value: float, beyond: str, detail: str) -> str:
    """The clause that is shown when the check is violated: never a name alone."""
    if math.isnan(value):
        return f"{name} is not a number" + (f" ({detail})" if detail else "")
    return detail or f"{name} is {value:.3g}, {beyond}"


def at_most(
    name: str, value: float | None, row: Threshold, detail: str = "", *, n: int | None = None
) -> Check:
    """value <= the row's number. A missing value is undecided, NaN is a violation."""
    if value is None:
        return Check(name, UNDECIDED, None, row.value, detail or f"{name} was not recorded")
    detail = _full(name, value, f"more than {row.value:g}", detail)
    outcome = OK if value <= row.value else VIOLATED
    return Check(name, outcome, value, row.value, detail, row.unit, n=n)


def at_least(
    name: str, value: float | None, row: Threshold, detail: str = "", *, n: int | None = None
) -> Check:
    """value >= the row's number. A missing value is undecided, NaN is a violation."""
    if value is None:
        return Check(name, UNDECIDED, None, row.value, detail or f"{name} was not recorded")
    detail = _full(name, value, f"less than {row.value:g}", detail)
    outcome = OK if value >= row.value else VIOLATED
    return Check(name, outcome, value, row.value, detail, row.unit, n=n)


def none_of(name: str, departures: list[str], n: int, meaning: str) -> Check:
    """No departure among n things looked at. meaning: what was found to hold."""
    if not departures:
        return Check(name, OK, 0, 0, meaning, "departures", n=n)
    more = f" (and {len(departures) - 1} more)" if len(departures) > 1 else ""
    return Check(name, VIOLATED, len(departures), 0, departures[0] + more, "departures", n=n)


def undecided(name: str, detail: str, **values: Any) -> Check:
    """Evidence is missing or cannot carry a decision."""
    return Check(name, UNDECIDED, detail=detail, **values)


def reported(
    name: str, value: float | str | None, detail: str = "", unit: str = "", *, n: int | None = None
) -> Check:
    """A value that is shown and decides nothing."""
    return Check(name, REPORTED, value, None, detail, unit, n=n)


@dataclass(frozen=True)
class GateResult:
    """One row of the table. statistic, low, high: what was measured, with its interval; margin:
    what it had to stay within; n: observations; unit: of statistic and margin."""

    gate: str
    verdict: str
    required: bool
    reason: str
    statistic: float | str | None = None
    low: float | None = None
    high: float | None = None
    margin: float | str | None = None
    n: int | None = None
    unit: str = ""
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The judgement of a campaign. claim: what it entitles to say, None unless PASS;
    criteria: version and sha256; attempts: phase -> starts, for phases started more than once;
    notes: what a reader must know and no gate decides; inject, inject_side: the seeded fault."""

    verdict: str
    gates: tuple[GateResult, ...]
    scale: str
    device: str
    criteria: dict[str, str]
    claim: str | None
    campaign_id: str = ""
    recipe_id: str = ""
    attempts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    inject: str | None = None
    inject_side: str | None = None

    @property
    def required(self) -> list[GateResult]:
        """The gates that this scale and stage require."""
        return [gate for gate in self.gates if gate.required]


def _number(value: Any) -> Any:
    """JSON has no NaN: such values are written as text, so that they stay visible."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def check_json(check: Check) -> dict[str, Any]:
    """A check as it stands in the verdict's JSON form."""
    decided = {OK: True, VIOLATED: False}
    body: dict[str, Any] = {
        "name": check.name,
        "value": _number(check.value),
        "limit": _number(check.limit),
        "ok": decided.get(check.outcome),
        "outcome": check.outcome,
    }
    for key in ("low", "high", "n"):
        if (value := getattr(check, key)) is not None:
            body[key] = _number(value)
    for key in ("unit", "detail"):
        if value := getattr(check, key):
            body[key] = value
    return body


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The document of ``certify judge --json`` (an interface, see docs/criteria.md)."""
    return {
        "schema": SCHEMA,
        "verdict": verdict.verdict,
        "gates": [
            {
                "gate": gate.gate,
                "verdict": gate.verdict,
                "required": gate.required,
                "statistic": _number(gate.statistic),
                "low": _number(gate.low),
                "high": _number(gate.high),
                "margin": _number(gate.margin),
                "n": gate.n,
                "unit": gate.unit,
                "reason": gate.reason,
                "checks": [check_json(check) for check in gate.checks],
            }
            for gate in verdict.gates
        ],
        "scale": verdict.scale,
        "device": verdict.device,
        "criteria": verdict.criteria,
        "claim": verdict.claim,
        "campaign": verdict.campaign_id,
        "recipe": verdict.recipe_id,
        "attempts": verdict.attempts,
        "notes": list(verdict.notes),
        "inject": verdict.inject,
        "inject_side": verdict.inject_side,
    }


def as_text(verdict: Verdict) -> str:
    """The text of ``verdict.json``: the same verdict always gives the same bytes."""
    return json.dumps(as_json(verdict), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
