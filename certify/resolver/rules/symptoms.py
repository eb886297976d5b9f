"""Findings from signals: an error text that names its cause, or several causes to look at."""

from __future__ import annotations

from certify.environment.signals import SIGNALS
from certify.resolver.findings import ERROR, INFO, WARNING, Finding
from certify.resolver.model import COMPATIBLE, INCOMPATIBLE, REFERENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.environment.stack import Signal
    from certify.resolver.facts import Facts

# Third-party packages that CANN's operator compiler imports.
COMPILER_NEEDS = ("decorator", "attrs", "psutil", "scipy", "sympy", "cffi", "cloudpickle", "numpy")
# A signal that follows from another one proves nothing of its own.
_EXPLAINED_BY = {
    "dcmi-failed": ("device-nodes-closed", "device-permission", "device-used"),
    "no-devices-seen": ("device-nodes-closed", "device-permission", "dcmi-failed", "device-used",
                        "library-driver"),
    "device-open-failed": ("symbol-cann-internal", "symbol-driver", "device-used"),
    "symbol-unnamed": ("symbol-torch", "symbol-atb", "symbol-cann"),
    "module-torch-npu": ("module-torch-npu-partial",),
    "library-driver": (),
    "compile-option-failed": ("module-cann-deps", "module-cann", "numpy-abi"),
    "accelerator-unknown": (
        "library-cann", "library-nnal", "library-driver", "symbol-torch", "symbol-atb",
        "symbol-cann", "module-torch-npu", "module-torch-npu-partial", "attribute-torch-npu-op",
    ),
    "op-compile-failed": ("module-cann-deps", "module-cann", "numpy-abi"),
    "no-topology-in-container": (),
}  # fmt: skip


def symptoms(facts: Facts) -> Iterable[Finding]:
    """One finding a rule and signal; candidates that the versions exclude are left out."""
    for signal in facts.stack.signals:
        kind = SIGNALS.get(signal.id)
        if kind is None or signal.id in _HANDLED:
            continue
        if kind.decisive == "no-cuda-wheels" and not facts.npu_evidence:
            # Something for CUDA is missing: only on an NPU host is that thing wrong here.
            if facts.accelerator != "cuda":
                yield _of(signal, "no-cuda-wheels", WARNING, kind.component)
            continue
        explained = any(facts.has(other) for other in _EXPLAINED_BY.get(signal.id, ()))
        if kind.benign:
            yield _of(signal, "note", INFO, kind.component)
        elif signal.id == "symbol-atb" and _other_strings(facts, signal):
            yield _of(signal, "cxx-abi", ERROR, kind.component, signal_text="symbol-abi")
        elif kind.decisive is not None:
            yield _of(
                signal, kind.decisive, INFO if explained else ERROR, kind.component,
                paired=_paired(facts, signal.id),
            )  # fmt: skip
        elif not explained:
            yield from candidates(facts, signal, kind.candidates, kind.component)


# Signals that a rule of their own reads together with other facts.
_HANDLED = frozenset(
    (
        "triton-uninstalled", "dependency-conflict", "local-version-conflict", "module-not-built",
        "megatron-path", "built-for", "autoload-failed", "autoload-trace", "stated-requirement",
        "cann-required", "wheel-not-for-here", "python-required", "cuda-not-compiled",
        "no-topology-in-container", "device-alarm", "device-lost", "link-down", "npu-smi-hangs",
        "cann-several", "cann-env-differs", "cann-field-empty", "cann-env-unset", "unreadable",
        "module-torch-too-old", "library-other", "kernels-absent", "cann-paths-repeated",
        "device-nodes-closed", "no-distribution", "attribute-torch-npu-op", "cann-paths-mixed",
        "benign-log-level",
        "devices-not-mounted", "cuda-host", "npu-named", "npu-smi-absent", "module-several",
    )
)  # fmt: skip


def _paired(facts: Facts, signal: str) -> str:
    """The torch_npu that a table pairs with this CANN, where CANN lacks what torch_npu asks for."""
    if signal not in ("symbol-cann", "function-not-in-cann"):
        return ""
    return ", ".join(facts.paired_wheels())


def _of(signal: Signal, rule: str, severity: str, component: str, **more: str) -> Finding:
    shown = more.pop("signal_text", signal.id)
    values = {**signal.data, "text": signal.text, **more}
    return Finding(rule, severity, component, f"signal-{shown}", values, signal.source)


def _other_strings(facts: Facts, signal: Signal) -> bool:
    """Whether the missing function takes strings of the other C++ ABI than ATB's folder in use:
    ``__cxx11`` is the ABI of cxx_abi_1, ``Ss`` that of cxx_abi_0."""
    from certify.environment.symptoms.symbols import string_abi

    folder = facts.version("atb_abi")
    asked = string_abi(signal.data.get("symbol", ""))
    return folder is not None and asked is not None and asked != folder


def candidates(
    facts: Facts, signal: Signal, rules: tuple[str, ...], component: str
) -> Iterable[Finding]:
    """A warning for each cause that is still open; confirmed ones have a finding of their own."""
    states = {rule: candidate_state(facts, rule) for rule in rules}
    left = [rule for rule, state in states.items() if state != "excluded"]
    order = {rule: place for place, rule in enumerate(left, 1)}
    for rule in left:
        values = {
            **signal.data,
            "text": signal.text,
            "place": str(order[rule]),
            "count": str(len(left)),
            "causes": ", ".join(left),
        }
        if rule == "container-devices" and not facts.in_container:
            values["cause"] = "device-nodes"
        severity = WARNING if states[rule] == "open" else INFO
        yield Finding(rule, severity, component, f"signal-{signal.id}", values, signal.source)
    if not left:
        yield _of(signal, "note", INFO, component)


def candidate_state(facts: Facts, rule: str) -> str:
    """``confirmed``, ``excluded`` or ``open``, by the versions and packages that were seen."""
    if rule == "cann-python-deps":
        return _python_deps(facts)
    if rule == "container-devices":
        reachable = facts.stack.view == "host" and facts.seen("device_nodes")
        return "excluded" if reachable and not facts.has("device-nodes-closed") else "open"
    if rule == "cann-uniform":
        return "confirmed" if facts.has("cann-parts-differ", "cann-paths-mixed") else "open"
    results = [result for result in facts.pairs if result.rule == rule]
    if rule == "numpy":
        results = [result for result in results if "cann" in result.components]
        numpy = facts.version("numpy")
        if not results and numpy is not None and numpy.startswith("1."):
            return "excluded"
    if any(result.status == INCOMPATIBLE for result in results):
        return "confirmed"
    if results and all(result.status in (REFERENCE, COMPATIBLE) for result in results):
        return "excluded"
    return "open"


def _python_deps(facts: Facts) -> str:
    if not facts.packages_listed:
        return "open"
    absent = [name for name in COMPILER_NEEDS if facts.package(name) is None]
    return "confirmed" if absent else "excluded"
