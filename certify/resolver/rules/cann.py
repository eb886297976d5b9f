"""CANN in force: where it is, that it is one, that its parts and its environment fit."""

from __future__ import annotations

from certify.resolver.findings import ERROR, INFO, WARNING, Finding
from certify.resolver.rules.symptoms import COMPILER_NEEDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts

_LAYOUT_SIGNALS = ("cann-several", "cann-env-differs", "cann-field-empty")


def layout(facts: Facts) -> Iterable[Finding]:
    """Several versions, a variable that points elsewhere, an empty field, sightings that differ."""
    for signal in facts.signals(*_LAYOUT_SIGNALS):
        severity = {"cann-env-differs": ERROR, "cann-several": WARNING}.get(signal.id, INFO)
        if signal.id == "cann-several" and signal.data.get("in_force"):
            severity = INFO
        yield Finding(
            "cann-layout", severity, "cann", f"signal-{signal.id}",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip
    sightings = facts.stack.components.get("cann", ())
    if facts.stack.view == "report" and len({_train(s.version) for s in sightings}) > 1:
        versions = "; ".join(f"{s.version} ({s.source})" for s in sightings[:4])
        yield Finding(
            "cann-layout", WARNING, "cann", "cann-sightings-differ", {"versions": versions},
            sightings[0].source,
        )  # fmt: skip


def _train(version: str) -> str:
    return ".".join(version.lower().replace("-", ".").split(".")[:2])


def environment(facts: Facts) -> Iterable[Finding]:
    """set_env.sh was not sourced, or paths of several trees are in force."""
    for signal in facts.signals("cann-env-unset"):
        yield Finding(
            "cann-environment", WARNING, "cann", "signal-cann-env-unset",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip
    for signal in facts.signals("cann-paths-mixed"):
        yield Finding(
            "cann-uniform", ERROR, "cann", "signal-cann-paths-mixed",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip
    for signal in facts.signals("cann-paths-repeated"):
        yield Finding(
            "cann-uniform", INFO, "cann", "signal-cann-paths-repeated",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip


def kernels(facts: Facts) -> Iterable[Finding]:
    """The ops package is there and of this chip."""
    for signal in facts.signals("kernels-absent"):
        yield Finding(
            "cann-kernels", _absence(facts), "cann_ops", "signal-kernels-absent",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip
    chips = facts.version("cann_ops_chips")
    wanted = {"A2": "ascend910b", "A3": "ascend910_93", "910": "ascend910", "310P": "ascend310p",
              "950": "ascend950"}.get(facts.product or "")  # fmt: skip
    older = {"950": "ascend910_95"}.get(facts.product or "")
    if chips and wanted and wanted not in chips.split() and older not in chips.split():
        found = facts.found("cann_ops_chips")
        yield Finding(
            "cann-kernels", ERROR, "cann_ops", "kernels-other-chip",
            {"chips": chips, "wanted": wanted, "product": facts.product or ""},
            found.source if found else "",
        )  # fmt: skip


def _absence(facts: Facts) -> str:
    """Without the ops package no operator runs; up to 8.3 a first-generation 910 compiles them as
    it goes, so that there it is a doubt."""
    from certify.versions import matches

    cann = facts.version("cann")
    compiles = facts.product == "910" and cann is not None and matches("cann", "<8.5.0", cann)
    return WARNING if compiles else ERROR


def python_deps(facts: Facts) -> Iterable[Finding]:
    """Packages that CANN's compiler imports, where the list of packages is complete."""
    if facts.stack.view == "report" or not facts.seen("cann") or not facts.stack.packages:
        return
    absent = [name for name in COMPILER_NEEDS if facts.package(name) is None]
    if absent:
        yield Finding(
            "cann-python-deps", WARNING, "cann", "compiler-needs", {"absent": " ".join(absent)},
            "CANN install guide, Python dependencies",
        )  # fmt: skip


def abi(facts: Facts) -> Iterable[Finding]:
    """ATB's cxx_abi folder against torch's flag; unknown flag: ask."""
    folder, flag = facts.version("atb_abi"), facts.version("torch_abi")
    if folder is None:
        return
    found = facts.found("atb_abi")
    source = found.source if found else ""
    if flag is None:
        yield Finding("cxx-abi", INFO, "nnal", "abi-unknown", {"folder": folder}, source)
    elif flag != folder:
        yield Finding(
            "cxx-abi", ERROR, "nnal", "abi-differs", {"folder": folder, "flag": flag}, source
        )


def required(facts: Facts) -> Iterable[Finding]:
    """A message that names the CANN it needs, against the one that is there."""
    from certify.versions import matches

    cann = facts.version("cann")
    for signal in facts.signals("cann-required"):
        need = signal.data.get("version", "")
        bound = (signal.data.get("op") or ">=") + need
        try:
            fits = cann is not None and matches("cann", bound, cann)
        except ValueError:
            continue
        if cann is not None and not fits:
            yield Finding(
                "torch-npu-cann", ERROR, "cann", "signal-cann-required",
                {"need": bound, "cann": cann, "text": signal.text}, signal.source,
            )  # fmt: skip


def built_for(facts: Facts) -> Iterable[Finding]:
    """A prebuilt extension against the CANN that it was built for."""
    cann = facts.version("cann")
    for signal in facts.signals("built-for"):
        built = signal.data.get("version", "")
        there = signal.data.get("have") or cann
        same = there is not None and _release(built) == _release(there)
        severity = INFO if same else WARNING if there is None else ERROR
        yield Finding(
            "built-for-cann", severity, "extension", "signal-built-for",
            {"built": built, "cann": there or "?", "text": signal.text}, signal.source,
        )  # fmt: skip
    for name in ("llama_box", "llama_cpp"):
        found = facts.found(name)
        if found is not None and facts.seen("cann") and not facts.has("built-for"):
            yield Finding(
                "built-for-cann", WARNING, "extension", "prebuilt-binary",
                {"name": name.replace("_", "-"), "version": found.version, "cann": cann or "?"},
                found.source,
            )  # fmt: skip


def _release(version: str) -> str:
    """Without build and test suffixes: 8.0.RC2.beta1 and 8.0.RC2 are built against one API."""
    from certify.versions import from_free_text, release

    read = from_free_text("cann", version)
    if read is None:
        return version
    return f"{release(read)} {read.key[2]} {read.key[3]}"
