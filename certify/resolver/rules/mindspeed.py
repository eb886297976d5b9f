"""MindSpeed: its metadata names the Megatron line, the branch alone names the release."""

from __future__ import annotations

from certify.resolver.findings import ERROR, INFO, WARNING, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts


def release(facts: Facts) -> Iterable[Finding]:
    """An installation that does not tell its branch: pip's number is one of many releases."""
    number = facts.package("mindspeed") or ""
    if number.startswith("0.0.1") and facts.stack.view == "report":
        yield Finding(
            "package-index", ERROR, "pip", "signal-placeholder-package",
            {"text": f"mindspeed {number}", "name": "mindspeed"}, "pip",
        )  # fmt: skip
        return
    sightings = facts.stack.components.get("mindspeed_core", ())
    if not sightings or not (
        "mindspeed_core" in facts.from_metadata or facts.version("mindspeed_core") is None
    ):
        return
    found = sightings[0]
    path = found.detail.get("path", "")
    text = "mindspeed-checkout" if path and "/site-packages" not in path else "mindspeed-pip"
    llm = facts.version("mindspeed_llm")
    wanted = _branch_for(facts, llm) if llm else ""
    severity = WARNING if llm else INFO
    if found.version.startswith("core_v"):
        text = "mindspeed-megatron-tag"
        line = found.version.removeprefix("core_v")
        severity = INFO if not wanted or wanted.endswith(f"_core_r{line}") else WARNING
    if found.detail.get("revision") or found.version.startswith("commit "):
        text = "mindspeed-commit"
    yield Finding(
        "mindspeed-pair", severity, "mindspeed_core", text,
        {
            "number": number or found.version, "path": path or "MindSpeed",
            "commit": found.version.removeprefix("commit "),
            "wanted": wanted or "x.y.z_core_rA.B.C", "llm": llm or "?",
        },
        found.source,
    )  # fmt: skip


def _branch_for(facts: Facts, llm: str) -> str:
    """The MindSpeed branch that MindSpeed-LLM's table names for this release."""
    for claim in facts.matrix.about("mindspeed_llm", "mindspeed_core"):
        if claim.components["mindspeed_llm"] == llm:
            return str(claim.components["mindspeed_core"])
    return ""


def several(facts: Facts) -> Iterable[Finding]:
    """Two trees of one module on the import path: the order of the path decides."""
    for signal in facts.signals("module-several"):
        same = len(set(signal.data.get("versions", "").split(" | "))) == 1
        known = "unknown" not in signal.data.get("versions", "")
        yield Finding(
            "module-shadow", INFO if same and known else WARNING, "python",
            "signal-module-several", {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip
