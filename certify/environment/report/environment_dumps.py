"""Environment dumps: collect_env of PyTorch and vllm-ascend, llamafactory-cli, accelerate and
transformers env, verl diagnose, sglang check_env, lscpu."""

from __future__ import annotations

import re

from certify.environment.names import is_known_package, normal
from certify.environment.products import chip_family
from certify.environment.report.block import Block, Format
from certify.environment.report.packages import add_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_VERSION = re.compile(r"v?(\d[\w.+!-]{0,100})")
_PLATFORM = re.compile(
    r"Linux-(\S{1,200}?)-(x86_64|aarch64)\b(?:.{0,200}?glibc[-\s]?(\d{1,3}\.\d{1,3}))?"
)
_ARCHES = {"aarch64": "aarch64", "arm64": "aarch64", "x86_64": "x86_64", "amd64": "x86_64",
           "armv8": "aarch64"}  # fmt: skip
_OS = re.compile(r"^(.{2,60}?)\s*\((\w+)\)\s*$")

# Keys at the start of a line of collect_env: key -> component.
_COLLECT = {
    "PyTorch version": "torch", "vLLM Version": "vllm", "vLLM Ascend Version": "vllm_ascend",
    "Libc version": "glibc", "Python version": "python", "OS": "os", "Architecture": "arch",
    "Python platform": "platform", "GCC version": "gcc", "torch_npu version": "torch_npu",
    "TorchNPU version": "torch_npu", "CANN version": "cann",
}  # fmt: skip
_LSCPU = ("Thread(s) per core", "Socket(s)", "Core(s) per socket", "Core(s) per cluster")


def add_platform(text: str, source: str, out: StackBuilder) -> None:
    """Kernel, architecture and glibc of a Python platform string."""
    match = _PLATFORM.search(text)
    if match:
        out.add("kernel", match.group(1), source, "stated")
        out.add("arch", match.group(2), source, "stated")
        if match.group(3):
            out.add("glibc", match.group(3), source, "stated")


def add_arch(text: str, source: str, out: StackBuilder, confidence: str = "stated") -> None:
    """An architecture word in its usual spelling."""
    arch = _ARCHES.get(text.strip().lower())
    if arch:
        out.add("arch", arch, source, confidence)


def _starts_collect(line: str) -> bool:
    key, colon, _ = line.partition(":")
    return bool(colon) and key in _COLLECT


def _read_collect(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    """One line of collect_env: its lines stand among many others and need no order."""
    line = block.lines[block.start]
    block.end = block.start + 1
    key, _, value = line.partition(":")
    value, source = value.strip(), block.source()
    component = _COLLECT[key]
    if not value or value in ("Could not collect", "N/A", "None", "Not Available"):
        return "read", "empty field: unknown, not absent"
    if component == "os":
        match = _OS.match(value)
        out.add("os", match.group(1) if match else value[:60], source, "stated")
        if match:
            add_arch(match.group(2), source, out)
    elif component == "platform":
        add_platform(value, source, out)
    elif component == "arch":
        add_arch(value, source, out)
    elif component == "glibc":
        out.add("glibc", value.removeprefix("glibc-").strip(), source, "stated")
    elif component == "gcc":
        version = re.search(r"\d{1,3}\.\d{1,3}\.\d{1,3}", value[:200])
        if version:
            out.add("gcc", version.group(), source, "stated")
    else:
        version = _VERSION.match(value)
        if version is None:
            return None
        if component in ("torch", "vllm", "vllm_ascend", "torch_npu"):
            add_package(component, version.group(1), source, out)
        else:
            out.add(component, version.group(1), source, "stated")
    return "read", ""


def _read_lscpu(block: Block, out: StackBuilder) -> tuple[str, str]:
    lines = block.take_while(lambda line: line.partition(":")[0].strip() in _LSCPU, 8)
    for offset, line in enumerate(lines):
        value = line.partition(":")[2].strip()
        if value in ("0", "-"):
            out.signal("no-topology-in-container", line.strip(), block.source(offset), field=value)
            break
    return "read", ""


_DASHED = re.compile(
    r"^\s*-\s+`?(?P<name>[A-Za-z][\w .-]{0,40}?)`? version(?: \([^)]{0,40}\))?: "
    r"(?P<value>.{1,200})$"
)
_DASHED_OTHER = re.compile(
    r"^\s*-\s+`?(?P<key>NPU type|Platform|CANN version|NPU available|PyTorch NPU available"
    r"|NPU name|Python)`?: (?P<value>.{1,300})$"
)


def _read_dashed(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    """``- `name` version: value`` lines of llamafactory-cli, accelerate and transformers env."""
    lines = block.take_while(
        lambda line: bool(_DASHED_OTHER.match(line) or _DASHED.match(line)), 200
    )
    read = 0
    for offset, line in enumerate(lines):
        source = block.source(offset)
        other = _DASHED_OTHER.match(line)
        if other:
            read += 1
            _add_dashed_other(other.group("key"), other.group("value").strip(), source, out)
            continue
        match = _DASHED.match(line)
        version = _VERSION.match(match.group("value").strip()) if match else None
        if match is None or version is None:
            continue
        name = match.group("name").strip().lower()
        read += 1
        if name == "python":
            out.add("python", version.group(1), source, "stated")
        elif name in ("pytorch", "torch"):
            add_package("torch", version.group(1), source, out)
            if "(NPU)" in line:
                out.add("torch_npu_present", "yes", source, "stated")
        elif name == "cann":
            out.add("cann", version.group(1), source, "stated", field="torch.version.cann")
        elif is_known_package(normal(name)):
            add_package(normal(name), version.group(1), source, out)
    return ("read", "") if read else None


def _add_dashed_other(key: str, value: str, source: str, out: StackBuilder) -> None:
    if key in ("NPU type", "NPU name"):
        add_chip(value, source, out)
    elif key == "Platform":
        add_platform(value, source, out)
    elif key == "Python":
        out.add("python", value, source, "stated")
    elif key == "CANN version":
        version = _VERSION.match(value)
        if version:
            out.add("cann", version.group(1), source, "stated", field="torch.version.cann")
    elif "available" in key and value == "False":
        out.signal("no-devices-seen", f"{key}: {value}", source)


def add_chip(name: str, source: str, out: StackBuilder, confidence: str = "stated") -> None:
    """A chip name and the product family it belongs to."""
    family = chip_family(name)
    if family:
        out.add("chip", name.strip(), source, confidence)
        out.add("product", family, source, confidence, chip=name.strip())


_RULED = re.compile(r"^-{4,}\s?([A-Za-z][\w ]{1,30}?)\s?-{4,}$")


def _read_verl(block: Block, out: StackBuilder) -> tuple[str, str]:
    """`verl/scripts/diagnose.py`: blocks under dashed headings with ``key : value`` lines."""
    lines = block.take_while(
        lambda line: bool(_RULED.match(line)) or ":" in line or line.strip() == "", 200
    )
    heading = ""
    for offset, line in enumerate(lines):
        ruled = _RULED.match(line)
        if ruled:
            heading = ruled.group(1).strip().lower()
            continue
        key, _, value = (part.strip() for part in line.partition(":"))
        source = block.source(offset)
        version = _VERSION.match(value)
        if key == "Platform":
            add_platform(value, source, out)
        elif key in ("machine", "Architecture"):
            add_arch(value, source, out)
        elif version is None:
            continue
        elif heading.startswith("python") and key == "Version":
            out.add("python", version.group(1), source, "stated")
        elif heading.startswith("pip") and is_known_package(normal(key)):
            add_package(key, version.group(1), source, out)
        elif heading.startswith("verl") and key == "Version":
            add_package("verl", version.group(1), source, out)
    return "read", "no NPU, CANN or torch_npu lines in this format"


def _read_sglang(block: Block, out: StackBuilder) -> tuple[str, str]:
    """`python -m sglang.check_env` on NPU: ``key: value`` lines."""
    lines = block.take_while(lambda line: ":" in line, 200)
    for offset, line in enumerate(lines):
        key, _, value = (part.strip() for part in line.partition(":"))
        source = block.source(offset)
        version = _VERSION.match(value)
        if re.fullmatch(r"NPU [\d,]+", key):
            add_chip(value, source, out)
        elif key in ("CANN_HOME", "ASCEND_HOME"):
            out.variables.setdefault("ASCEND_HOME_PATH", value)
        elif key == "CANN" and version is None:
            out.signal("cann-field-empty", line.strip(), source)
        elif version is None:
            continue
        elif key == "CANN":
            out.add("cann", version.group(1), source, "stated")
        elif key in ("NPU Driver Version", "Driver Version", "ASCEND Driver Version"):
            out.add("driver", version.group(1), source, "stated")
        elif key == "Python":
            out.add("python", version.group(1), source, "stated")
        elif key == "PyTorch":
            add_package("torch", version.group(1), source, out)
        elif is_known_package(normal(key)):
            add_package(key, version.group(1), source, out)
    return "read", ""


def _read_cann_heading(block: Block, out: StackBuilder) -> tuple[str, str]:
    """collect_env's ``CANN:`` heading: nothing under it means that the script looked in the wrong
    place (it knows one path), not that CANN is absent."""
    block.end = block.start + 1
    below = [line.strip() for line in block.lines[block.end : block.end + 4]]
    if any("=" in line and "version" in line for line in below) or (
        below and below[0].startswith(("package_name", "cat:", "/usr"))
    ):
        return "read", ""
    out.signal("cann-field-empty", "CANN: (empty)", block.source())
    return "partial", "empty CANN field: unknown, not missing"


COLLECT_ENV = Format(_starts_collect, _read_collect)
CANN_HEADING = Format(lambda line: line.strip() == "CANN:", _read_cann_heading)
LSCPU = Format(lambda line: line.lstrip().startswith(_LSCPU), _read_lscpu)
DASHED_ENV = Format(
    lambda line: (
        line.lstrip().startswith("- ")
        and (" version" in line or "NPU type" in line or "Platform:" in line)
        and ":" in line
    ),
    _read_dashed,
)
VERL_DIAGNOSE = Format(
    lambda line: line.startswith("----") and bool(_RULED.match(line)), _read_verl
)
SGLANG_ENV = Format(
    lambda line: line.startswith(("NPU available:", "CANN_HOME:", "NPU 0")) and ":" in line,
    _read_sglang,
)
