"""Frameworks and the training stack: autoload wrapper, missing operators, Megatron, deepspeed."""

from __future__ import annotations

from certify.resolver.findings import ERROR, INFO, WARNING, Finding
from certify.resolver.model import COMPATIBLE, INCOMPATIBLE, REFERENCE
from certify.resolver.rules.symptoms import candidate_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts

_BEHIND_WRAPPER = (
    "symbol-torch", "symbol-atb", "symbol-cann", "symbol-cann-internal", "symbol-driver",
    "library-cann", "library-nnal", "library-driver", "module-torch-npu-partial",
    "module-triton-backend", "triton-uninstalled", "numpy-abi", "module-cann", "libstdcxx-old",
    "glibc-old", "symbol-unnamed", "module-triton-damaged",
)  # fmt: skip


def autoload(facts: Facts) -> Iterable[Finding]:
    """The line is a wrapper: what matters is the exception it was raised from."""
    for signal in facts.signals("autoload-failed")[:1]:
        known = facts.has(*_BEHIND_WRAPPER)
        yield Finding(
            "autoload-wrapper", INFO if known else WARNING, "torch_npu", "signal-autoload-failed",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip


def operators(facts: Facts) -> Iterable[Finding]:
    """An operator that the caller expects and this torch_npu does not have."""
    for signal in facts.signals("attribute-torch-npu-op")[:3]:
        yield Finding(
            "framework-row", ERROR, "torch_npu", "signal-attribute-torch-npu-op",
            {**signal.data, "text": signal.text, "wheel": facts.version("torch_npu") or "?"},
            signal.source,
        )  # fmt: skip


def unbuilt(facts: Facts) -> Iterable[Finding]:
    """A framework imported from its source folder before it was installed."""
    for signal in facts.signals("module-not-built")[:2]:
        yield Finding(
            "framework-row", WARNING, "framework", "signal-module-not-built",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip


def unlisted(facts: Facts) -> Iterable[Finding]:
    """A build of a framework that its table does not have: development builds, old candidates."""
    version = facts.version("vllm_ascend")
    found = facts.found("vllm_ascend")
    if version is None or found is None or found.confidence == "inferred":
        return
    if not _has_row(facts, version):
        yield Finding(
            "framework-row", WARNING, "vllm_ascend", "framework-unlisted",
            {"name": "vllm-ascend", "version": version}, found.source,
        )  # fmt: skip


def _has_row(facts: Facts, version: str) -> bool:
    """Whether the framework's table has this build, whatever else was seen beside it."""
    from certify.versions import parse, parse_spec

    found = parse("pep440", version)
    rows = (
        claim.components["vllm_ascend"]
        for claim in facts.matrix.about("vllm_ascend")
        if len(claim.components) > 1
    )
    return found is not None and any(parse_spec("pep440", row).matches(found) for row in rows)


def torch_age(facts: Facts) -> Iterable[Finding]:
    """A framework that imports parts which this torch does not have."""
    for signal in facts.signals("module-torch-too-old")[:2]:
        rule = "deepspeed-torch" if facts.seen("deepspeed") else "framework-row"
        yield Finding(
            rule, WARNING, "torch", "signal-module-torch-too-old",
            {**signal.data, "text": signal.text, "torch": facts.version("torch") or "?"},
            signal.source,
        )  # fmt: skip


def cuda_message(facts: Facts) -> Iterable[Finding]:
    """ "Torch not compiled with CUDA": old torch under new transformers, or CUDA hard-coded in the
    application. The versions decide, never the message."""
    for signal in facts.signals("cuda-not-compiled")[:1]:
        torch, hf = facts.version("torch"), facts.version("transformers")
        judged = [r for r in facts.pairs if r.rule == "transformers-range"]
        values = {"text": signal.text, "torch": torch or "?", "transformers": hf or "?"}
        if any(r.status == INCOMPATIBLE for r in judged):
            yield Finding("transformers-range", INFO, "torch", "cuda-message-explained", values,
                          signal.source)  # fmt: skip
        elif (
            torch is not None
            and candidate_state(facts, "torch-pair") != "confirmed"
            and (judged or _modern(torch))
        ):
            yield Finding("note", INFO, "application", "cuda-hard-coded", values, signal.source)
        else:
            yield Finding("transformers-range", WARNING, "torch", "signal-cuda-not-compiled",
                          values, signal.source)  # fmt: skip


def _modern(torch: str) -> bool:
    """From 2.5.1 on torch sends an integer device to the registered accelerator."""
    from certify.versions import matches

    return matches("pep440", ">=2.5.1", torch)


def megatron(facts: Facts) -> Iterable[Finding]:
    """A checkout on PYTHONPATH beside a pip package, or two checkouts."""
    paths = facts.signals("megatron-path")
    listed = facts.package("megatron-core") or (
        facts.version("megatron") if facts.stack.view == "report" else None
    )
    if facts.has("megatron-several") or not paths:
        return
    if listed or len({signal.data.get("path") for signal in paths}) > 1:
        other = f"site-packages ({listed})" if listed else paths[-1].text
        yield Finding(
            "megatron-single", ERROR, "megatron", "megatron-two",
            {"first": paths[0].text, "second": other}, paths[0].source,
        )  # fmt: skip
        yield Finding(
            "megatron-pair", WARNING, "megatron", "megatron-undecided",
            {"first": paths[0].text, "second": other}, paths[0].source,
        )  # fmt: skip


def sources(facts: Facts) -> Iterable[Finding]:
    """What a document says differs from what is there, and pairs on which sources disagree."""
    for signal in facts.signals("stated-requirement")[:20]:
        component, stated = signal.data.get("component", ""), signal.data.get("version", "")
        found = facts.version(component)
        low = signal.text.lower()
        documented = "doc" in low or "文档" in low or "readme" in low
        if documented and found and not found.startswith(stated):
            yield Finding(
                "claim-source", INFO, component, "document-differs",
                {"component": component, "stated": stated, "found": found}, signal.source,
            )  # fmt: skip
    for result in facts.pairs:
        if result.conflict and result.status not in (REFERENCE, COMPATIBLE):
            row = next(
                (r for r in facts.matrix.tables["conflicts"] if r["id"] == result.conflict), {}
            )
            yield Finding(
                "claim-source", INFO, result.components[0], "sources-disagree",
                {"conflict": result.conflict, "handling": row.get("handling", "")},
                facts.citation(result.claims),
            )  # fmt: skip


def unpaired(facts: Facts) -> Iterable[Finding]:
    """torch under an old CANN without the torch_npu version that would settle it."""
    if facts.version("torch") is None or facts.version("torch_npu") is not None:
        return
    cann = facts.version("cann")
    if cann is None:
        return
    wheels = facts.paired_wheels()
    yield Finding(
        "torch-npu-cann", WARNING if not wheels else INFO, "torch_npu", "torch-npu-not-seen",
        {"torch": facts.have["torch"], "cann": cann, "wheels": ", ".join(wheels) or "-"},
        facts.citation(()),
    )  # fmt: skip
