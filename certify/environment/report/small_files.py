"""Pasted copies of small files of a Python package and of the firmware tool."""

from __future__ import annotations

import re

from certify.environment.ascend_files import literal_assignments
from certify.environment.report.block import Block, Format
from certify.environment.report.environment_dumps import add_arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_FIRMWARE = re.compile(
    r'"device_id"\s*:\s*\d+\s*,\s*"component"\s*:\s*"?[\w-]{1,40}"?\s*,\s*"version"\s*:\s*"?'
    r"(\d+(?:\.\d+){4})"
)
_GOT = re.compile(r"Get component version\((\d+(?:\.\d+){4})\) succeed")
_TAG = re.compile(r"^Tag: cp3(\d{1,2})-cp3\d{1,2}-\w*?(x86_64|aarch64)\s*$")
_WHEEL_KEYS = ("Wheel-Version:", "Generator:", "Root-Is-Purelib:", "Tag:")
_NEAR = 8


def _read_firmware(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    """Output of the driver's upgrade-tool: one version for each part of the firmware."""
    match = _FIRMWARE.search(block.lines[block.start]) or _GOT.search(block.lines[block.start])
    if match is None:
        return None
    block.end = block.start + 1
    out.add("firmware", match.group(1), block.source(), "stated", tool="upgrade-tool")
    return "read", ""


def _read_wheel(block: Block, out: StackBuilder) -> tuple[str, str]:
    """A WHEEL file: the interpreter and the machine that a package was installed for."""
    lines = block.take_while(lambda line: line.startswith(_WHEEL_KEYS), 40)
    for offset, line in enumerate(lines):
        tag = _TAG.match(line)
        if tag:
            out.add("python", f"3.{tag.group(1)}", f"{block.source(offset)}: Tag", "inferred")
            add_arch(tag.group(2), block.source(offset), out)
    return "read", ""


def _read_version_py(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    """version.py of torch_npu, which holds two lines, or of torch, which says more."""
    near = block.lines[block.start : block.start + _NEAR]
    count = next((n for n, line in enumerate(near) if not line.strip()), len(near))
    text = "\n".join(line for line in near[:count] if "=" in line)
    values = literal_assignments(text)
    version, git = values.get("__version__"), values.get("git_version")
    if not version or not git:
        return None
    module = "torch" if "debug" in text or "cuda" in text else "torch_npu"
    block.end = block.start + count
    out.add(module, version, block.source(), "stated")
    out.packages.setdefault(module.replace("_", "-"), version)
    if module == "torch_npu":
        out.add("torch_npu_git", git, block.source(), "stated")
    return "read", ""


def _read_entry(block: Block, out: StackBuilder) -> tuple[str, str]:
    """The entry point through which ``import torch`` loads torch_npu."""
    block.end = block.start + 1
    out.add("torch_npu_present", "yes", block.source(), "stated", autoload="yes")
    return "read", ""


UPGRADE_TOOL = Format(lambda line: '"component"' in line or "Get component" in line, _read_firmware)
WHEEL = Format(lambda line: line.startswith("Wheel-Version:"), _read_wheel)
VERSION_PY = Format(lambda line: line.startswith("__version__ ="), _read_version_py)
ENTRY_POINT = Format(lambda line: line.startswith("torch_npu = torch_npu:_autoload"), _read_entry)
