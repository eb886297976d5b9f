"""Devices in containers: nodes, mounts, the right to open them, health."""

from __future__ import annotations

from certify.resolver.findings import ERROR, INFO, WARNING, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts

_RUNTIME_FAILED = (
    "compile-option-failed", "jit-default-failed", "no-devices-seen", "device-open-failed",
    "dcmi-failed",
)  # fmt: skip


def permissions(facts: Facts) -> Iterable[Finding]:
    """Who may not open the nodes, and why."""
    for signal in facts.signals("device-nodes-closed"):
        yield Finding(
            "container-permissions", ERROR, "container", "signal-device-nodes-closed",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip


def tool(facts: Facts) -> Iterable[Finding]:
    """npu-smi is not there: of a container its mounts are at fault, of a host its driver; where
    nothing speaks of an NPU it need not be there."""
    for signal in facts.signals("npu-smi-absent"):
        severity, text = WARNING, "signal-npu-smi-absent"
        if facts.accelerator != "npu":
            severity, text = INFO, "no-npu-seen"
        elif facts.version("collected_view") == "host":
            text = "npu-smi-absent-on-host"
        yield Finding(
            "container-devices", severity, "driver", text,
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip


def topology(facts: Facts) -> Iterable[Finding]:
    """lscpu without sockets: a container that sees little of its host; matters when a call into
    the driver failed as well."""
    for signal in facts.signals("no-topology-in-container"):
        severity = WARNING if facts.has(*_RUNTIME_FAILED) else INFO
        yield Finding(
            "container-devices", severity, "container", "signal-no-topology-in-container",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip


def health(facts: Facts) -> Iterable[Finding]:
    """Devices that complain, got lost, do not answer, or have lost memory."""
    for signal in facts.signals("device-alarm", "device-lost", "npu-smi-hangs", "link-down"):
        yield Finding(
            "device-health", WARNING, "device", f"signal-{signal.id}",
            {**signal.data, "text": signal.text}, signal.source,
        )  # fmt: skip
    devices = facts.stack.devices
    sizes = {device.memory_mb for device in devices if device.memory_mb}
    names = {device.name for device in devices}
    if len(sizes) > 1 and len(names) == 1:
        small = [str(device.index) for device in devices if device.memory_mb == min(sizes)]
        yield Finding(
            "device-health", WARNING, "device", "memory-shrunk",
            {"devices": " ".join(small), "low": str(min(sizes)), "high": str(max(sizes))},
            "npu-smi info",
        )  # fmt: skip
    pci = facts.version("pci_accelerators")
    if pci and pci.isdigit() and int(pci) in (7, 15):
        yield Finding(
            "device-health", WARNING, "device", "card-lost-on-bus",
            {"seen": pci, "usual": str(int(pci) + 1)}, "lspci",
        )  # fmt: skip
    if pci and pci.isdigit() and devices and len(devices) < int(pci):
        yield Finding(
            "device-health", WARNING, "device", "card-without-driver",
            {"pci": pci, "devices": str(len(devices))}, "lspci, npu-smi info",
        )  # fmt: skip


def image(facts: Facts) -> Iterable[Finding]:
    """An image built for another product than the device at hand."""
    wanted, product = facts.version("image_product"), facts.product
    stated = facts.stack.components.get("product", ())
    if wanted is None or product is None or wanted == product:
        return
    if any(s.confidence != "inferred" and s.version == wanted for s in stated):
        return
    found = facts.found("image_product")
    tag = found.detail.get("image", "") if found else ""
    yield Finding(
        "soc", WARNING, "image", "image-other-product",
        {"image": wanted, "product": product, "tag": tag},
        found.source if found else "",
    )  # fmt: skip


def mounts(facts: Facts) -> Iterable[Finding]:
    """Nodes or mounts that are not there: on a host that is an error; what a typed docker run line
    leaves out is a warning when something failed, else a note."""
    typed = WARNING if facts.has(*_RUNTIME_FAILED, "library-driver") else INFO
    for signal in facts.signals("devices-not-mounted"):
        yield Finding(
            "container-devices",
            typed if facts.stack.view == "report" else ERROR,
            "container",
            "signal-devices-not-mounted",
            {**signal.data, "text": signal.text},
            signal.source,
        )
