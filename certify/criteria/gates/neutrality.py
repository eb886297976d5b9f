"""neutrality: whose model code the candidate trains; reported, never a reason to FAIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.criteria.outcome import Finding, reported

if TYPE_CHECKING:
    from certify.criteria.case import Case


def judge(case: Case) -> Finding:
    """Say whether the candidate's model is the stock class of its library, and name the sources."""
    checks = []
    for phase in ("candidate", "reference"):
        run = case.evidence.run(phase)
        for part in [] if run is None else run.components():
            detail = (
                f"{phase} {part.part}: {part.module}.{part.class_name}, {part.package} "
                f"{part.version}, {part.file} {part.source_sha256[:12]}"
            )
            checks.append(reported(f"{phase} {part.part}", _kind(case, part.package), detail))
    model = next((c for c in checks if c.name == "candidate model"), None)
    summary = "no model was recorded" if model is None else f"{model.value}; {model.detail}"
    return Finding(tuple(checks), "candidate model", summary)


def _kind(case: Case, package: str) -> str:
    """stock: the class comes from a library as published; registered: it is a class of its own."""
    return "stock" if package in case.limits.names("stock-packages") else "registered"
