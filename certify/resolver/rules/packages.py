"""Packages: indexes, architecture, CUDA wheels, triton beside triton-ascend, intended conflicts."""

from __future__ import annotations

from certify.resolver.findings import ERROR, INFO, WARNING, Finding
from certify.versions import parse, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts

INDEX_ASCEND = "https://mirrors.huaweicloud.com/ascend/repos/pypi"
INDEX_CPU = "https://download.pytorch.org/whl/cpu"
INDEX_TRITON = "https://triton-ascend.osinfra.cn/pypi/simple"


def index(facts: Facts) -> Iterable[Finding]:
    """The build that is asked for is not on the index in use."""
    for signal in facts.signals("no-distribution"):
        name = signal.data.get("name", "").lower().replace("_", "-")
        url = {"triton-ascend": INDEX_TRITON, "torch": INDEX_CPU}.get(name, INDEX_ASCEND)
        yield Finding(
            "package-index", ERROR, name, "signal-no-distribution",
            {**signal.data, "text": signal.text, "url": url}, signal.source,
        )  # fmt: skip
    for signal in facts.signals("local-version-conflict"):
        # Only the x86_64 wheels ask for +cpu, so the line itself tells the architecture.
        other = facts.arch is not None and facts.arch != "x86_64"
        yield Finding(
            "package-index", INFO if other else ERROR, "torch", "signal-local-version-conflict",
            {**signal.data, "text": signal.text, "url": INDEX_CPU}, signal.source,
        )  # fmt: skip
    yield from _row_build(facts)
    for signal in facts.signals("wheel-not-for-here"):
        yield from _wheel(facts, signal.data.get("wheel", ""), signal.text, signal.source)


def _wheel(facts: Facts, wheel: str, text: str, source: str) -> Iterable[Finding]:
    """A wheel that pip refused: by its tags it is the interpreter or the architecture."""
    parts = wheel.removesuffix(".whl").split("-")
    tag = next((part for part in parts if part.startswith("cp3")), "")
    python, arch = facts.version("python"), facts.arch
    values = {"wheel": wheel, "text": text, "python": python or "?", "arch": arch or "?"}
    wheel_arch = next((a for a in ("x86_64", "aarch64") if wheel.endswith(a + ".whl")), None)
    if arch and wheel_arch and arch != wheel_arch:
        yield Finding("package-index", ERROR, "pip", "wheel-arch", values, source)
    elif python and tag and tag != "cp" + "".join(python.split(".")[:2]):
        yield Finding("python", ERROR, "python", "wheel-python", values, source)
    else:
        yield Finding("python", WARNING, "python", "wheel-unclear", values, source)


def _row_build(facts: Facts) -> Iterable[Finding]:
    """A framework that is not installed yet, and whose row pins a build that PyPI does not have."""
    vllm, wheel = facts.version("vllm"), facts.version("torch_npu")
    found = parse("pep440", vllm) if vllm else None
    if found is None or wheel is None or facts.seen("vllm_ascend"):
        return
    pins: dict[str, str] = {}
    for claim in facts.matrix.about("vllm_ascend", "vllm"):
        named = parse("pep440", claim.components["vllm"].split("/")[0])
        pin = claim.components.get("torch_npu")
        if named is not None and pin and release(named) == release(found):
            pins.setdefault(pin, claim.id)
    public = {c.components["torch_npu"] for c in facts.matrix.claims if _is_public(c.id, c.kind)}
    hidden = [pin for pin in pins if pin not in public]
    if not hidden or wheel in pins:
        return
    unbuilt = facts.has("module-not-built")
    values = {"wheel": wheel, "pins": ", ".join(pins), "hidden": hidden[0], "url": INDEX_ASCEND,
              "vllm": vllm or ""}  # fmt: skip
    yield Finding(
        "package-index", ERROR if unbuilt else WARNING, "torch_npu", "row-build-not-public", values,
        facts.citation((pins[hidden[0]],)),
    )  # fmt: skip


def _is_public(claim: str, kind: str) -> bool:
    return kind == "availability" and claim.startswith("torch_npu_wheels")


def cuda(facts: Facts) -> Iterable[Finding]:
    """CUDA builds on an NPU host."""
    if not facts.npu_evidence:
        return
    torch = facts.found("torch")
    if torch is not None and "+cu" in torch.version:
        yield Finding(
            "no-cuda-wheels", ERROR, "torch", "torch-cuda-build",
            {"version": torch.version, "base": torch.version.split("+")[0], "url": INDEX_CPU},
            torch.source,
        )  # fmt: skip
    wheels = sorted(name for name in facts.stack.packages if name.startswith("nvidia-"))
    if wheels:
        yield Finding(
            "no-cuda-wheels", WARNING if torch is None or "+cu" not in torch.version else INFO,
            "pip", "nvidia-wheels", {"names": " ".join(wheels[:6]), "count": str(len(wheels))},
            "pip list",
        )  # fmt: skip


def triton(facts: Facts) -> Iterable[Finding]:
    """Plain triton beside triton-ascend where no version settles it, and its removal."""
    both = facts.seen("triton") and facts.seen("triton_ascend")
    judged = facts.pair("triton-exclusive")
    if both and judged is None:
        found = facts.found("triton")
        yield Finding(
            "triton-exclusive", ERROR, "triton", "triton-beside",
            {
                "triton": facts.version("triton") or "?",
                "ascend": facts.version("triton_ascend") or "?",
            },
            found.source if found else "",
        )  # fmt: skip
    for signal in facts.signals("triton-uninstalled"):
        broken = facts.has("autoload-trace", "autoload-failed", "module-triton-damaged")
        here = facts.seen("triton_ascend") and "triton" not in facts.stack.packages
        yield Finding(
            "triton-integrity", ERROR if broken or here else WARNING, "triton_ascend",
            "signal-triton-uninstalled", {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip


def conflicts(facts: Facts) -> Iterable[Finding]:
    """pip's complaints: what is installed decides, the complaint itself is a note."""
    for signal in facts.signals("dependency-conflict")[:8]:
        if signal.data.get("have"):
            yield Finding(
                "note", INFO, "pip", "signal-dependency-conflict",
                {**signal.data, "text": signal.text}, signal.source,
            )  # fmt: skip
    needs = {
        signal.data.get("spec", "").strip(" ()")
        for signal in facts.signals("dependency-conflict")
        if signal.data.get("needs", "").lower() == "torch"
    }
    exact = {need for need in needs if need.startswith("==")}
    if len(exact) > 1 and not facts.seen("torch"):
        signal = facts.signals("dependency-conflict")[0]
        yield Finding(
            "torch-pair", WARNING, "torch", "torch-requirements-differ",
            {"specs": ", ".join(sorted(exact))}, signal.source,
        )  # fmt: skip


def python(facts: Facts) -> Iterable[Finding]:
    """An interpreter that a message refuses, or that nobody has shown."""
    for signal in facts.signals("python-required"):
        have = signal.data.get("have") or facts.version("python")
        yield Finding(
            "python", ERROR if have else WARNING, "python", "signal-python-required",
            {**signal.data, "have": have or "?", "text": signal.text}, signal.source,
        )  # fmt: skip
    if facts.accelerator == "npu" and not facts.seen("python") and not facts.has("python-required"):
        yield Finding("python", INFO, "python", "python-not-seen", {}, facts.stack.view)
