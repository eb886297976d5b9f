"""The JSON document of check-env (`ARCHITECTURE`, "Command line"): the interface, and what every
other form is made from."""

from __future__ import annotations

from certify.environment.render.sentences import in_words, missing_in_words, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from certify.environment.stack import Stack
    from certify.resolver.findings import Verdict
    from certify.resolver.model import Resolution
    from matrices.load import Matrix

SCHEMA = "certify.check-env/1"


def document(stack: Stack, verdict: Verdict, matrix: Matrix, lang: str) -> dict[str, Any]:
    """Everything that is said, with the keys of the interface."""
    changes = verdict.resolution.changes if verdict.resolution else ()
    commands = {change.component: change.commands for change in changes}
    return {
        "schema": SCHEMA,
        "verdict": verdict.verdict,
        "stack": _stack(stack, verdict),
        "findings": [in_words(finding, matrix, lang, commands) for finding in verdict.findings],
        "missing": [missing_in_words(item, lang) for item in verdict.missing],
        "resolution": resolution(verdict.resolution, matrix),
    }


def _stack(stack: Stack, verdict: Verdict) -> dict[str, dict[str, str]]:
    shown = {}
    for name, sightings in stack.components.items():
        first = sightings[0]
        shown[name] = {
            "version": verdict.versions.get(name, first.version),
            "source": first.source,
            "confidence": first.confidence,
        }
    if stack.devices:
        shown["devices"] = {
            "version": str(len(stack.devices)),
            "source": "npu-smi info",
            "confidence": "certain" if stack.view != "report" else "stated",
        }
    return shown


def resolution(found: Resolution | None, matrix: Matrix) -> dict[str, Any]:
    """The smallest change; empty lists when there is none to make."""
    if found is None:
        return {"changes": [], "commands": [], "row": {}}
    changes = [
        {
            "component": change.component,
            "name": name_of(matrix, change.component),
            "found": change.found,
            "target": change.target,
            "cost": change.cost,
            "layer": change.layer,
            "source": _source(matrix, change.why),
            "stops_jobs": change.stops_jobs,
        }
        for change in found.changes
    ]
    commands = [line for change in found.changes for line in change.commands]
    return {
        "changes": changes,
        "commands": list(dict.fromkeys(commands)),
        "row": found.row,
        "cost": found.cost,
        "level": found.level,
        "stays": found.stays,
        "blocked": list(found.blocked),
    }


def _source(matrix: Matrix, claim_id: str) -> str:
    claim = matrix.claim(claim_id) if claim_id else None
    return claim.citation() if claim else claim_id
