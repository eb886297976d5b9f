"""Pasted output of npu-smi: the table, the map, board and health lines."""

from __future__ import annotations

from certify.environment.npu_smi import (
    Table,
    healthy,
    is_table_line,
    read_board,
    read_map,
    read_table,
)
from certify.environment.products import chip_family
from certify.environment.report.block import Block, Format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder
    from certify.environment.stack import Device

_HEADER_WORDS = ("| npu-smi", "Health  ", "Process id", "Bus-Id ", "HBM-Usage")


def family_of(table: Table, device: Device) -> str | None:
    """The product family of a row: A3 prints no chip number, only a physical id column."""
    layout = table.layout
    if device.name == "Ascend910" and layout is not None and layout.phy_id:
        return "A3"
    return chip_family(device.name, ddr_mb=table.ddr_mb, hbm_mb=device.memory_mb)


def add_table(table: Table, source: str, out: StackBuilder, confidence: str) -> None:
    """Devices, driver version, product and chip of a table into the stack."""
    if table.driver and any(c.isdigit() for c in table.driver):
        tool = {"tool": table.tool} if table.tool and table.tool != table.driver else {}
        out.add("driver", table.driver, source, confidence, tool="npu-smi", **tool_detail(tool))
    if len(table.devices) > len(out.devices):
        out.devices = list(table.devices)
    for device in table.devices:
        family = family_of(table, device)
        if family:
            out.add("product", family, source, confidence, chip=device.name)
        if any(c.isdigit() for c in device.name):
            out.add("chip", device.name, source, confidence)
        if not healthy(device.health):
            out.signal(
                "device-lost" if device.health == "Offline" else "device-alarm",
                f"device {device.index} ({device.name}): {device.health}",
                source,
                health=device.health or "",
            )


def tool_detail(tool: dict[str, str]) -> dict[str, str]:
    """The tool's own version when it differs from the driver's."""
    return {"tool_version": tool["tool"]} if tool else {}


def _starts_table(line: str) -> bool:
    text = line.lstrip()
    return text.startswith(("+--", "+==", "| "))


def _read_table(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    place = f"npu-smi {block.name}"
    if block.start < out.in_vain.get(place, 0):
        return None
    lines = block.take_while(is_table_line)
    text = "\n".join(lines)
    if "NVIDIA" in text:
        return "read", "a table of nvidia-smi"
    table = read_table(text)
    if not table.devices and not any(word in text for word in _HEADER_WORDS):
        out.in_vain[place] = block.end
        return None
    headless = not table.driver and not any(word in text for word in _HEADER_WORDS)
    if headless and not any(family_of(table, device) for device in table.devices):
        return None
    add_table(table, block.source(), out, "stated")
    state = table.state
    if not table.devices and table.driver is None and "Process id" in text:
        return "read", "process table"
    return state, table.note


def _read_map(block: Block, out: StackBuilder) -> tuple[str, str]:
    lines = block.take_while(lambda line: bool(line.strip()))
    devices = read_map("\n".join(lines))
    if len(devices) > len(out.devices):
        out.devices = list(devices)
    for device in devices:
        family = chip_family(device.name.replace("Ascend ", "Ascend"))
        if family:
            out.add("product", family, block.source(), "stated", chip=device.name)
        out.add("chip", device.name.removeprefix("Ascend ").strip(), block.source(), "stated")
    return ("read", "") if devices else ("unparsed", "no chips in the map")


_BOARD_KEYS = ("NPU ID", "Product Name", "Chip ID", "Chip Name", "Health Status", "Chip Type",
               "Software Version", "Firmware Version", "NPU Count", "Slot ID")  # fmt: skip


def _starts_board(line: str) -> bool:
    key, colon, _ = line.partition(":")
    return bool(colon) and key.strip() in _BOARD_KEYS and len(key) > len(key.strip()) + 3


def _read_board(block: Block, out: StackBuilder) -> tuple[str, str]:
    lines = block.take_while(lambda line: ":" in line)
    info = read_board("\n".join(lines))
    source = block.source()
    if info.get("Software Version"):
        out.add("driver", info["Software Version"], source, "stated")
    if info.get("Firmware Version"):
        out.add("firmware", info["Firmware Version"], source, "stated")
    chip = info.get("Chip Name", "")
    if chip:
        out.add("chip", chip, source, "stated")
        family = chip_family(chip)
        if family:
            out.add("product", family, source, "stated", chip=chip)
    if not healthy(info.get("Health Status")):
        codes = info.get("Error Code", "")
        out.signal(
            "device-alarm", f"health {info['Health Status']} {codes}".strip(), source,
            health=info["Health Status"], codes=codes,
        )  # fmt: skip
    if info.get("Compatibility", "OK").upper() not in ("OK", "NA"):
        out.signal(
            "driver-firmware-mismatch", f"Compatibility: {info['Compatibility']}", source,
            state=info["Compatibility"],
        )  # fmt: skip
    return "read", ""


def _read_lspci(block: Block, out: StackBuilder) -> tuple[str, str]:
    lines = block.take_while(lambda line: "accelerators" in line)
    families = {"d801": "910", "d806": "950"}
    out.add("pci_accelerators", str(len(lines)), block.source(), "stated")
    for device, family in families.items():
        if any(f"Device {device}" in line for line in lines):
            out.add("product", family, block.source(), "inferred", pci=device)
    return "read", ""


NPU_SMI_TABLE = Format(_starts_table, _read_table)
NPU_SMI_MAP = Format(lambda line: "NPU ID" in line and "Chip Name" in line, _read_map)
NPU_SMI_BOARD = Format(_starts_board, _read_board)
LSPCI = Format(lambda line: "Processing accelerators" in line and "Huawei" in line, _read_lspci)
