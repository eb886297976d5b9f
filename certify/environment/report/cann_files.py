"""Pasted copies of the version files of CANN, NNAL, driver, firmware, and of os-release."""

from __future__ import annotations

from certify.environment.ascend_files import key_values, nnal_version, version_cfg
from certify.environment.report.block import Block, Format
from certify.environment.version_files import add_cfg, add_info, add_os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_INFO_KEYS = (
    "package_name=", "version=", "Version=", "innerversion=", "Innerversion=", "version_dir=",
    "ascendhal_version=", "firmware_version=", "compatible_version", "package_version=",
)  # fmt: skip


def _read_info(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    lines = block.take_while(lambda line: "=" in line and not line.startswith("export "))
    info = key_values("\n".join(lines))
    return ("read", "") if add_info(info, block.source(), out, "stated") else None


def _read_cfg(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    lines = block.take_while(lambda line: "_version=[" in line or line.startswith("#"))
    text = "\n".join(lines)
    if not version_cfg(text):
        return None
    add_cfg(text, block.source(), out, "stated")
    return "read", ""


def _read_nnal(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    lines = block.take_while(lambda line: ":" in line)
    info = nnal_version("\n".join(lines))
    if "version" not in info:
        return None
    detail = {key: value for key, value in info.items() if key != "version"}
    out.add("nnal", info["version"], block.source(), "stated", **detail)
    return "read", ""


def _read_os_release(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    lines = block.take_while(lambda line: "=" in line)
    info = key_values("\n".join(lines))
    return ("read", "") if add_os(info, block.source(), out, "stated") else None


CANN_INFO = Format(lambda line: line.lstrip().startswith(_INFO_KEYS), _read_info)
VERSION_CFG = Format(
    lambda line: "_running_version=[" in line or "_installed_version=[" in line, _read_cfg
)
NNAL_INFO = Format(lambda line: "Ascend-cann-atb" in line and ":" in line, _read_nnal)
OS_RELEASE = Format(
    lambda line: line.startswith(("NAME=", "PRETTY_NAME=", "ID=", "VERSION_ID=")), _read_os_release
)
