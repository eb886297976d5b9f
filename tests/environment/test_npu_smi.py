"""Every table layout of npu-smi, whole and cut; own samples, and the shared ones where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.environment.npu_smi import read_map, read_table
from certify.environment.products import chip_family, server_family
from certify.environment.report.tables import family_of

if TYPE_CHECKING:
    from pathlib import Path

A2 = """\
+--------------------------------------------------------------------------------------+
| npu-smi 25.3.rc1                 Version: 25.3.rc1                                   |
+---------------------------+---------------+------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+==========================================+
| 0     910B3               | OK            | 90.0        40                0    / 0   |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3400 / 65536         |
+===========================+===============+==========================================+
| 1     910B3               | Warning       | 91.0        41                0    / 0   |
| 0                         | 0000:C2:00.0  | 0           0    / 0          61000/ 65536         |
+---------------------------+---------------+------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+==========================================+
| 0       0                 | 4711          | python                   | 3000                    |
| 1       0                 | 4712          |                          | 3000                    |
"""
A3 = """\
| npu-smi 25.5.1                   Version: 25.5.1                                     |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+==========================================+
| 3     Ascend910           | OK            | 170.7       49                0    / 0   |
| 0     6                   | 0000:8D:00.0  | 0           0    / 0          51255/ 65536         |
+--------------------------------------------------------------------------------------+
| 3     Ascend910           | OK            | -           51                0    / 0   |
| 1     7                   | 0000:8F:00.0  | 0           0    / 0          45292/ 65536         |
"""
A950 = """\
| npu-smi 25.7.rc1                                 Version: 25.7.rc1                   |
| NPU ID | Name             | Health        | Power(W)    Temp(C)     Hugepages-Usage(page) |
|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)   |
+========+==================+===============+==========================================+
| 0      | Ascend950PR      | OK            | 195.6       56          0     / 0       |
|        |                  | 0000:61:00.0  | 0           0    / 0    5239  / 131072  |
+========+==================+===============+==========================================+
| NPU ID                    | Process id    | Process name       | Process memory(MB)  |
| 0                         | 846718        |                    | 332                 |
"""
P310 = """\
| npu-smi 24.1.0.1                                 Version: 24.1.0.1                   |
| NPU     Name                  | Health          | Power(W)     Temp(C)   Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)              |
+===============================+=================+====================================+
| 32800   310P3                 | OK              | NA           59        0     / 0   |
| 0       4                     | 0000:82:00.0    | 0            1844 / 21527          |
"""
FIRST = """\
| npu-smi 24.1.0                   Version: 24.1.0                                     |
| NPU   Name           | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                 | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     910B           | OK            | 65.7        38                0    / 0   |
| 0                    | 0000:C1:00.0  | 0           2382 / 15038      0    / 32768         |
"""
CASES = {
    # name: text, indices, chip, memory, driver, family
    "A2": (A2, [0, 1], "910B3", 65536, "25.3.rc1", "A2"),
    "A3 counts dies": (A3, [6, 7], "Ascend910", 65536, "25.5.1", "A3"),
    "950": (A950, [0], "Ascend950PR", 131072, "25.7.rc1", "950"),
    "310P by device number": (P310, [4], "310P3", 21527, "24.1.0.1", "310P"),
    "910B of the first generation": (FIRST, [0], "910B", 32768, "24.1.0", "910"),
}


@pytest.mark.parametrize("name", CASES)
def test_layouts(name: str) -> None:
    text, indices, chip, memory, driver, family = CASES[name]
    table = read_table(text)
    assert (table.state, table.note) == ("read", "")
    assert [device.index for device in table.devices] == indices
    assert {device.name for device in table.devices} == {chip}
    assert {device.memory_mb for device in table.devices} == {memory}
    assert table.driver == driver
    assert {family_of(table, device) for device in table.devices} == {family}


def test_processes_are_no_devices_and_health_is_kept() -> None:
    table = read_table(A2)
    assert table.processes == (("4711", "python"), ("4712", ""))
    assert [device.health for device in table.devices] == ["OK", "Warning"]


def test_two_versions_in_the_header() -> None:
    table = read_table("| npu-smi 22.0.0          Version: 22.0.2           |")
    assert (table.tool, table.driver) == ("22.0.0", "22.0.2")


def test_cut_lines_give_devices_without_memory() -> None:
    cut = "\n".join(line[:45] for line in A2.splitlines()[:8])
    table = read_table(cut)
    assert table.state == "partial"
    assert [(d.name, d.memory_mb) for d in table.devices] == [("910B3", None)]


def test_a_row_without_its_header_is_still_a_device() -> None:
    table = read_table(
        "| 0     910B4               | OK            | 90.0        40      0    / 0   |"
    )
    assert [device.name for device in table.devices] == ["910B4"]
    assert table.state == "partial"


@pytest.mark.parametrize(
    "text", ["", "dcmi module initialize failed. ret is -8005", "| a | b |", "Invalid card id."]
)
def test_other_text_is_unparsed_and_not_no_devices(text: str) -> None:
    table = read_table(text)
    assert (table.state, table.devices) == ("unparsed", ())


def test_the_map_leaves_out_board_controllers() -> None:
    text = (
        "NPU ID   Chip ID   Chip Logic ID   Chip Phy-ID   Chip Name\n"
        "0        0         0               0             Ascend910\n"
        "0        1         1               1             Ascend910\n"
        "0        2         -               -             Mcu\n"
    )
    assert [(d.index, d.name) for d in read_map(text)] == [(0, "Ascend910"), (1, "Ascend910")]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("910B2C", "A2"), ("Ascend910B4-1", "A2"), ("Ascend 910b", "A2"), ("910A", "910"),
        ("910ProA", "910"), ("Ascend910_9362", "A3"), ("910C", "A3"), ("910_93", "A3"),
        ("Ascend950PR", "950"), ("950DT", "950"), ("Ascend310P3", "310P"), ("310B4", "310B"),
        ("310", "310"), ("H200", None), ("", None), ("9100", None),
    ],
)  # fmt: skip
def test_families_of_chips(name: str, family: str | None) -> None:
    assert chip_family(name) == family


@pytest.mark.parametrize(
    ("text", "family"), [("Atlas 800T A2", "A2"), ("900 A3", "A3"), ("A5", "950"), ("A4", None)]
)
def test_families_of_servers(text: str, family: str | None) -> None:
    assert server_family(text) == family


SHARED = {
    "npu-smi_310P3_8npu_24.1.0.1.txt": 8,
    "npu-smi_910A_truncated_lines.txt": 2,
    "npu-smi_910A_warning_23.0.rc1.b070.txt": 4,
    "npu-smi_950_7npu_blank-process-name_25.7.rc1.txt": 7,
    "npu-smi_950_single_25.7.rc1.6.txt": 1,
    "npu-smi_950_alarm_processes_25.7.rc1.txt": 3,
    "npu-smi_A2_910B2C_16npu_24.1.rc2.2.txt": 16,
    "npu-smi_A2_910B2_8npu_25.5.0.txt": 8,
    "npu-smi_A2_910B4_25.0.rc1.1_masked_busid.txt": 1,
    "npu-smi_A2_910B4_26.0.rc1.txt": 1,
    "npu-smi_A3_16chip_processes_noname_25.2.0.txt": 16,
    "npu-smi_A3_soft-partition_doc-template.txt": 2,
    "npu-smi_A3_two-chip_25.5.1.txt": 2,
}


@pytest.mark.parametrize("name", SHARED)
def test_public_samples(name: str, shared: Path) -> None:
    text = (shared / "facts/samples" / name).read_text("utf-8")
    assert len(read_table(text).devices) == SHARED[name]
