"""The head of a campaign's page: the verdict in a word and what it may and may not claim. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.documents import CampaignDocument, GateDocument, VerdictDocument

# Phases that the page does not wait for: it is written while the last one runs.
AFTERWARDS = ("report",)
# What a pass of each scale means, and what it must not be taken for (CRITERIA, "Scales").
MEANS = {
    "tiny": "On identical weights and batches, the model, its parallel layout, the optimizer, the"
    " schedule, the data order and the checkpoints do what the Megatron-Core reference does.",
    "reduced": "At the published widths and few layers, training does what the Megatron-Core"
    " reference does.",
    "full": "The published recipe, on the published cluster, trains as its Megatron reference"
    " does.",
}
MEANS_NOT = {
    "tiny": "It says nothing about speed, memory, the real model size or any other device, and"
    " it moves no published status.",
    "reduced": "It says nothing about the full depth or the full cluster, and moves no published"
    " status by itself.",
    "full": "Only on Ascend can it move a published row, by the rules of promotion.",
}


@dataclass(frozen=True)
class Headline:
    """word: PASS | FAIL | INCONCLUSIVE | NO VERDICT; shape: which sign is drawn beside it.

    claim: the words a pass entitles to, else empty; sentences: what stands below the word;
    limits: what the campaign does not say; gates: "7 of 7 required gates passed", else empty.
    """

    word: str
    shape: str
    claim: str
    sentences: tuple[str, ...]
    limits: str
    gates: str


def headline(campaign: CampaignDocument, verdict: VerdictDocument | None) -> Headline:
    """The head of the page from what the judge said, or from where the campaign stopped."""
    if verdict is None or verdict.verdict not in ("PASS", "FAIL", "INCONCLUSIVE"):
        return _without_verdict(campaign)
    required = [gate for gate in verdict.gates if gate.required]
    passed = sum(gate.verdict == "PASS" for gate in required)
    counted = f"{passed} of {len(required)} required gates passed"
    if verdict.verdict == "PASS":
        return Headline(
            "PASS",
            "pass",
            verdict.claim,
            tuple(filter(None, (MEANS.get(campaign.scale),))),
            MEANS_NOT.get(campaign.scale, ""),
            counted,
        )
    at_fault = [gate for gate in verdict.gates if gate.verdict == verdict.verdict]
    if verdict.verdict == "INCONCLUSIVE":
        at_fault = [gate for gate in at_fault if gate.required]
    lead = (
        "This campaign entitles to no claim: {} failed."
        if verdict.verdict == "FAIL"
        else "This campaign entitles to no claim: {} could not be decided."
    ).format(_gates(at_fault))
    reasons = tuple(f"{gate.gate}: {gate.reason}" for gate in at_fault if gate.reason)
    return Headline(verdict.verdict, verdict.verdict.lower(), "", (lead, *reasons), "", counted)


def _gates(gates: Sequence[GateDocument]) -> str:
    names = [gate.gate for gate in gates]
    if len(names) < 2:
        return f"the gate {names[0]}" if names else "a gate"
    return f"the gates {', '.join(names[:-1])} and {names[-1]}"


def _without_verdict(campaign: CampaignDocument) -> Headline:
    awaited = [phase for phase in campaign.phases if phase.name not in AFTERWARDS]
    done = [phase for phase in awaited if phase.status == "completed"]
    stopped = next((p for p in awaited if p.status in ("interrupted", "failed", "running")), None)
    what = {
        "interrupted": "was interrupted",
        "failed": "stopped with an error",
        "running": "had not finished when this page was written",
    }.get(campaign.status, "left no verdict")
    where = f" in the phase {stopped.name}" if stopped else ""
    sentences = [f"The campaign {what}{where}: {len(done)} of {len(awaited)} phases were done."]
    if stopped and stopped.reason and stopped.reason != campaign.status:
        sentences.append(f"{stopped.name}: {stopped.reason}")
    if campaign.status == "interrupted":
        sentences.append("The same command continues it where it stopped.")
    return Headline("NO VERDICT", "open", "", tuple(sentences), "", "")
