"""Findings from judged pairs: what published tables say about what is installed."""

from __future__ import annotations

from certify.resolver.findings import ERROR, INFO, WARNING, Finding
from certify.resolver.model import COMPATIBLE, INCOMPATIBLE, UNDECLARED
from certify.resolver.pairs import pair_results
from certify.versions import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts
    from certify.resolver.model import PairResult

# How much an undeclared pair weighs. Ranges that frameworks only test against, and pins of
# requirements files, are notes: pip conflicts of this kind are intended on Ascend.
_UNDECLARED = {"numpy": INFO, "python": INFO, "glibc": INFO}
# Components whose change is dearer: of a pair the other one is what to change.
_FIXED = ("driver", "hdk", "firmware", "product", "glibc", "arch", "python", "cuda_driver")


def pairs(facts: Facts) -> Iterable[Finding]:
    """Judges all pairs (kept in ``facts.pairs`` for the other rules) and reports the bad ones."""
    facts.pairs = pair_results(facts.matrix, facts.have, facts.context)
    for result in facts.pairs:
        finding = _finding(facts, result)
        if finding is not None:
            yield finding
    yield from _device_of_plugin(facts)
    yield from _driver_not_paired(facts)


def _finding(facts: Facts, result: PairResult) -> Finding | None:
    if result.status == INCOMPATIBLE:
        severity = _certainty(facts, result)
    elif result.status == UNDECLARED:
        about = set(result.components) == {"mindspeed_llm", "mindspeed_core"}
        if about and "mindspeed_core" in facts.from_metadata:
            # The number is no branch: the rule about MindSpeed's release says what to look up.
            return None
        severity = _UNDECLARED.get(result.rule, WARNING)
        if result.rule == "transformers-range" and "transformers" in result.components:
            severity = INFO if "mindspeed_core" in result.components else WARNING
    else:
        return None
    subject, object_ = result.components
    values = {
        "subject": subject,
        "object": object_,
        "subject_found": result.found[subject],
        "object_found": result.found[object_],
        "subject_expected": ", ".join(result.expected.get(subject, ())),
        "object_expected": ", ".join(result.expected.get(object_, ())),
        "subject_best": next(iter(result.expected.get(subject, ())), ""),
        "object_best": next(iter(result.expected.get(object_, ())), ""),
        "conflict": result.conflict,
    }
    return Finding(
        result.rule, severity, to_change(result), f"pair-{result.status}", values,
        facts.citation(result.claims), result.why,
    )  # fmt: skip


def _certainty(facts: Facts, result: PairResult) -> str:
    """An error, unless one side is only promised by an image tag or follows from a path while
    something else was stated: then the sightings have to be settled first."""
    for name in result.components:
        if _promised_by_image(facts, name):
            return WARNING
        key = "driver" if name == "hdk" and not facts.seen("hdk") else name
        sightings = facts.statements(key)
        if len({s.version for s in sightings if s.confidence != "inferred"}) > 1:
            return WARNING
        if sightings and sightings[0].confidence == "inferred" and len(sightings) > 1:
            return WARNING
        # A release that its name gives in two numbers (CANN 8.2) is a train, not a version.
        if key == "cann" and sightings and _is_train(sightings[0].version):
            return WARNING
    return ERROR


def _promised_by_image(facts: Facts, name: str) -> bool:
    """Known from an image's tag only: a promise, not a sighting."""
    found = facts.found(name)
    return found is not None and found.confidence == "inferred" and "image" in found.detail


def _driver_not_paired(facts: Facts) -> Iterable[Finding]:
    """A declared driver that is not the one the CANN was released with: worth knowing when a fault
    of the driver is suspected."""
    result = facts.pair("cann-driver", "cann", "hdk")
    if result is None or result.status != COMPATIBLE:
        return
    cann = parse("cann", facts.have["cann"])
    references: dict[str, str] = {}
    for claim in facts.matrix.about("cann", "hdk"):
        paired = parse("cann", claim.components["cann"])
        if claim.kind == "reference" and claim.scope == "cann_hdk" and paired == cann:
            references.setdefault(claim.components["hdk"], claim.id)
    if references:
        yield Finding(
            "cann-driver", INFO, "driver", "hdk-not-reference",
            {
                "driver": result.found["hdk"], "cann": result.found["cann"],
                "reference": ", ".join(references), "best": next(iter(references)),
            },
            facts.citation((next(iter(references.values())),)),
        )  # fmt: skip


def _is_train(version: str) -> bool:
    return version.count(".") == 1 and version.replace(".", "").isdigit()


def to_change(result: PairResult) -> str:
    """Of two components that do not go together, the one that is cheaper to move."""
    subject, object_ = result.components
    if object_ in _FIXED or (subject not in _FIXED and object_ == "cann"):
        return subject
    if subject == "torch_npu" and object_ == "torch":
        return "torch"
    return object_ if subject in (*_FIXED, "cann") or result.expected.get(object_) else subject


def _device_of_plugin(facts: Facts) -> Iterable[Finding]:
    """vllm on an NPU runs through vllm-ascend, which follows its number: judged for the device
    even where only vllm was listed."""
    vllm = facts.version("vllm")
    if vllm is None or facts.seen("vllm_ascend") or facts.product is None:
        return
    have = {"vllm_ascend": vllm.split("+")[0], "product": facts.product}
    for result in pair_results(facts.matrix, have, facts.context):
        if result.rule == "soc":
            finding = _finding(facts, result)
            if finding is not None:
                yield finding
