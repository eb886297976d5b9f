"""Reads what `npu-smi` prints: the table of `npu-smi info`, and its `-m`, `-t board`, `-t health`
forms.

The layout is chosen by the words of the two header rows, never by product or driver version, and
cells are split at ``|``, never at columns. A table that shows rows but yields no device is
reported as unparsed, never as "no devices".
"""

from __future__ import annotations

import re
from dataclasses import replace

from certify.environment.ascend_files import colon_values
from certify.environment.stack import Device
from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    from certify.light import dataclass, field

_USED_TOTAL = lazy(r"(\d{1,12})\s{0,20}/\s{0,20}(\d{1,12})")
_VERSIONS = lazy(r"npu-smi\s{1,80}v?(\S{1,80}).{0,200}?Version:\s{0,80}([^\s|]{1,80})")
# No table is wider; what is, is something else.
_WIDEST = 1000
_BUS_ID = lazy(r"^[0-9A-Fa-fxX]{4}:[0-9A-Fa-fxX]{2}:[0-9A-Fa-fxX]{2}\.[0-9A-Fa-fxX]$")
_HEALTHY = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN", "Unknown", "NA", "Offline")


@dataclass(frozen=True)
class Layout:
    """What the headers say. split_name: id and name in cells of their own (950); phy_id: the
    second row names a physical id (A3) or device id (310P) that is the index; hbm: has HBM."""

    split_name: bool
    phy_id: bool
    hbm: bool


@dataclass(frozen=True)
class Table:
    """state: ``read``, ``partial`` (rows that could not be used: `note`) or ``unparsed``.
    tool, driver: the versions of the header; ddr_mb: DDR total of the first row."""

    state: str
    devices: tuple[Device, ...] = ()
    tool: str | None = None
    driver: str | None = None
    ddr_mb: int | None = None
    layout: Layout | None = None
    note: str = ""
    processes: tuple[tuple[str, str], ...] = ()


@dataclass
class _Reading:
    """Where the reader is in the table."""

    layout: Layout | None = None
    tool: str | None = None
    driver: str | None = None
    devices: list[Device] = field(default_factory=list)
    ddr_mb: list[int | None] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    processes: list[tuple[str, str]] = field(default_factory=list)
    in_processes: bool = False
    header: list[str] | None = None
    open_row: bool = False
    skipped: int = 0


def is_table_line(line: str) -> bool:
    """Whether a line can belong to an npu-smi table (border or cells)."""
    text = line.strip()
    return text.startswith(("|", "+-", "+="))


def _cells(line: str) -> list[str]:
    text = line.strip()
    return [cell.strip() for cell in text.strip("|").split("|")] if "|" in text else []


def _header(state: _Reading, cells: list[str]) -> bool:
    """Take a header row; False when the row is none."""
    joined = " ".join(cells)
    if "Process id" in joined or "Process name" in joined:
        state.in_processes = True
        return True
    if "Health" in cells and "Power" in joined:
        state.header = cells
        state.in_processes = False
        state.layout = Layout(cells[0] in ("NPU ID", "NPU") and len(cells) >= 4, False, False)
        return True
    if state.header is not None and "Bus-Id" in joined and "Usage" in joined:
        first = cells[0]
        split = state.layout.split_name if state.layout else False
        state.layout = Layout(split, "Phy-ID" in first or "Device" in first, "HBM-Usage" in joined)
        return True
    return False


def _start(state: _Reading, layout: Layout, cells: list[str]) -> bool:
    """First line of a device: id, name, health."""
    if layout.split_name:
        if len(cells) < 3 or not cells[0].isdigit() or not cells[1]:
            return False
        npu, name, health = cells[0], cells[1], cells[2]
    else:
        words = cells[0].split()
        if len(words) < 2 or not words[0].isdigit() or len(cells) < 2 or words[1].isdigit():
            return False
        npu, name, health = words[0], " ".join(words[1:]), cells[1]
    word = health.split()[0] if health else ""
    index = int(npu) if len(npu) < 9 else len(state.devices)
    state.devices.append(Device(index, name, None, word or None, None))
    state.ddr_mb.append(None)
    state.ids.append(npu)
    state.open_row = True
    return True


def _finish(state: _Reading, layout: Layout, cells: list[str]) -> bool:
    """Second line of a device: bus id and memory. False when it is no such line."""
    if not state.open_row or not state.devices:
        return False
    device = state.devices[-1]
    if layout.split_name:
        if any(cells[:2]):
            return False
        rest = cells[2:]
    else:
        words = cells[0].split()
        if not words or not all(word.isdigit() or word == "-" for word in words):
            return False
        if layout.phy_id and len(words) > 1 and words[1].isdigit() and len(words[1]) < 9:
            device = replace(device, index=int(words[1]))
        rest = cells[1:]
    state.open_row = False
    bus = rest[0] if rest else ""
    totals = [int(total) for _, total in _USED_TOTAL.findall(" ".join(rest[1:])) if len(total) < 12]
    if totals:
        device = replace(device, memory_mb=totals[-1])
        if layout.hbm and len(totals) > 1:
            state.ddr_mb[-1] = totals[-2]
    if _BUS_ID.match(bus):
        device = replace(device, bus_id=bus)
    state.devices[-1] = device
    return True


def _row(state: _Reading, cells: list[str]) -> None:
    if _header(state, cells):
        return
    if state.in_processes:
        if len(cells) >= 3 and cells[1].isdigit():
            state.processes.append((cells[1], cells[2]))
        return
    layout = state.layout
    if layout is None:
        # A pasted table may have lost its header: the first row decides.
        layout = Layout(bool(cells) and cells[0].isdigit() and len(cells) > 3, False, True)
        state.layout = layout
        state.header = []
    if not (_start(state, layout, cells) or _finish(state, layout, cells)):
        state.skipped += 1


def _renumber(state: _Reading) -> list[Device]:
    """Chips of one NPU that share an index (templates print 0 twice) get their place instead."""
    devices = state.devices
    if len({device.index for device in devices}) == len(devices):
        return devices
    return [replace(device, index=place) for place, device in enumerate(devices)]


def read_table(text: str) -> Table:
    """`npu-smi info` output, whole, cut, or a few rows of it."""
    state = _Reading()
    for line in text.splitlines():
        line = line[:_WIDEST]
        versions = _VERSIONS.search(line) if "npu-smi" in line else None
        if versions:
            state.tool, state.driver = versions.groups()
            continue
        if not line.strip().startswith("|"):
            continue
        cells = _cells(line)
        if cells and any(cells) and "No running processes" not in line:
            _row(state, cells)
    devices = _renumber(state)
    if not devices:
        known = state.tool is not None
        note = "the rows of the table could not be read" if state.skipped else "no device rows"
        return Table("partial" if known else "unparsed", (), state.tool, state.driver, note=note)
    short = [d for d in devices if d.memory_mb is None]
    notes = []
    if short:
        notes.append(f"{len(short)} of {len(devices)} devices without memory (rows cut?)")
    if state.skipped:
        notes.append(f"{state.skipped} rows not understood")
    return Table(
        "partial" if notes else "read",
        tuple(devices),
        state.tool,
        state.driver,
        next((ddr for ddr in state.ddr_mb if ddr is not None), None),
        state.layout,
        "; ".join(notes),
        tuple(state.processes),
    )


def read_map(text: str) -> tuple[Device, ...]:
    """`npu-smi info -m`: one device per chip; rows of the board controller (Mcu) are left out."""
    devices: list[Device] = []
    columns: list[str] = []
    for line in text.splitlines():
        cells = [cell for cell in re.split(r"\t+|\s{2,}", line.strip()) if cell]
        if "NPU ID" in cells and "Chip Name" in cells:
            columns = cells
            continue
        if len(cells) != len(columns) or not columns:
            continue
        row = dict(zip(columns, cells, strict=True))
        name = row["Chip Name"]
        if name.lower() == "mcu" or not row["NPU ID"].isdigit():
            continue
        index = row.get("Chip Phy-ID") or row.get("Chip Logic ID") or row["NPU ID"]
        devices.append(Device(int(index) if index.isdigit() else len(devices), name))
    return tuple(devices)


def read_board(text: str) -> dict[str, str]:
    """`npu-smi info -t board`: its ``key : value`` lines."""
    return colon_values(text)


def healthy(word: str | None) -> bool:
    """Whether npu-smi's word for health is no complaint (absent counts as no complaint)."""
    return word is None or word.upper() in ("OK", "NA", "-", "")
