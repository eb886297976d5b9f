"""Shell text: exported variables, docker run lines, permissions, `id`, capabilities."""

from __future__ import annotations

import re

from certify.environment.names import may_record
from certify.environment.permissions import closed_reason
from certify.environment.report.block import Block, Format
from certify.environment.report.images import read_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_ASSIGN = re.compile(
    r"^\s*(?:[$#>]\s*)?(?:export\s+|ENV\s+|declare -x\s+|-e\s+|set\s+)?([A-Z][A-Z0-9_]{1,60})=(.*)$"
)
_NODE = re.compile(
    r"^c([r-][w-][x-][r-][w-][x-][r-][w-][x-])\S*\s+\d+\s+(\w[\w-]*)\s+(\w[\w-]*)\s.*?(/dev/\S+|davinci\S*)"
)
_NODE_SHORT = re.compile(r"^\s*(/dev/\S+)\s+(\w[\w-]*)[:/ ](\w[\w-]*)\s+0?([0-7]{3})\b")
_ID = re.compile(r"\buid=(\d+)(?:\(([^)]*)\))?(?:\s+gid=(\d+))?(?:\([^)]*\))?(?:\s+groups=(\S+))?")
_CAPS = re.compile(r"Cap(?:Eff|Prm):\s*([0-9a-fA-F]{8,16})")
_DEVICE_OPTION = re.compile(r"--device[= ]\s*(/dev/[\w*{}.,\[\]-]+|\$\{?\w+\}?)")
_VOLUME_OPTION = re.compile(r"(?:-v|--volume)[= ]\s*([^\s:]+):")


def _starts_assign(line: str) -> bool:
    if "=" not in line:
        return False
    match = _ASSIGN.match(line)
    return match is not None and may_record(match.group(1))


def _read_assign(block: Block, out: StackBuilder) -> tuple[str, str]:
    block.end = block.start + 1
    match = _ASSIGN.match(block.lines[block.start])
    assert match is not None
    name, value = match.group(1), match.group(2).strip().strip("\"'").rstrip("\\").strip()
    if name not in out.variables or name in ("LD_LIBRARY_PATH", "PYTHONPATH", "PATH"):
        earlier = out.variables.get(name, "")
        if earlier and f"${name}" in value.replace("{", "").replace("}", ""):
            value = re.sub(r"\$\{?" + name + r"\}?", lambda _: earlier, value)
        out.variables[name] = value[:16_000]
    if name == "IMAGE" or ("/" in value and ":" in value):
        read_images(value, block.source(), out)
    return "read", ""


def _starts_run(line: str) -> bool:
    return ("run" in line or "create" in line) and bool(
        re.search(r"\b(?:docker|nerdctl|podman|ctr)\s+(?:container )?(?:run|create)\b", line)
    )


def _read_run(block: Block, out: StackBuilder) -> tuple[str, str]:
    """A docker run command, over as many continued lines as it has."""
    lines: list[str] = []
    at = block.start
    while at < len(block.lines) and len(lines) < 200:
        lines.append(block.lines[at])
        at += 1
        if not block.lines[at - 1].rstrip().endswith("\\"):
            break
    block.end = at
    command = " ".join(line.rstrip().rstrip("\\") for line in lines)
    source = block.source()
    read_images(command, source, out)
    devices = _DEVICE_OPTION.findall(command)
    volumes = _VOLUME_OPTION.findall(command)
    privileged = "--privileged" in command and "--privileged=false" not in command
    runtime = "ascend" in command.lower() and (
        "--runtime" in command or "ASCEND_VISIBLE_DEVICES" in command
    )
    out.add("container_command", "docker run", source, "stated", privileged=str(privileged))
    if not privileged and not runtime:
        _missing_mounts(devices, volumes, source, out)
    return "read", ""


def _missing_mounts(devices: list[str], volumes: list[str], source: str, out: StackBuilder) -> None:
    lacking = []
    if any("$" in device for device in devices):
        devices = [*devices, "/dev/davinci0"]
    if not any(re.search(r"/dev/v?davinci(?:\d|\[|\*|\{)", device) for device in devices):
        lacking.append("--device /dev/davinciN")
    for node in ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"):
        if not any(device.startswith(node) for device in devices):
            lacking.append(f"--device {node}")
    if not any(
        "/Ascend/driver" in volume or volume.rstrip("/").endswith("/Ascend") for volume in volumes
    ):
        lacking.append("-v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro")
    if lacking:
        out.signal(
            "devices-not-mounted", "docker run without " + ", ".join(lacking), source,
            lacking=" ".join(lacking),
        )  # fmt: skip


def read_permissions(lines: list[str], name: str, out: StackBuilder) -> None:
    """Device nodes, user and capabilities of the text; who cannot open the nodes is a signal.

    Root without CAP_DAC_OVERRIDE is held to the mode bits like anyone else.
    """
    node: tuple[str, str, str, int] | None = None
    user: tuple[str, str | None, set[str]] | None = None
    capabilities: int | None = None
    where = name
    for number, line in enumerate(lines, 1):
        if "/dev/" in line or "davinci" in line:
            found = _device_node(line)
            if found and (node is None or "davinci" in found[0]):
                node, where = found, f"{name}:{number}"
        if "uid=" in line and (match := _ID.search(line)):
            groups = set(re.findall(r"\d+", match.group(4) or ""))
            groups |= {match.group(3)} if match.group(3) else set()
            user = (match.group(1), match.group(2), groups)
        if line.lstrip().startswith("CapEff") and (caps := _CAPS.search(line)):
            capabilities = int(caps.group(1), 16)
        if "cannot find name for user ID" in line or "I have no name!" in line:
            out.signal("uid-without-name", line, f"{name}:{number}")
    if node is None or user is None:
        return
    reason = closed_reason(node, user, capabilities)
    if reason:
        out.signal(
            "device-nodes-closed", f"{node[0]} {node[1]}:{node[2]} {node[3]:04o}, {reason}", where,
            path=node[0], owner=f"{node[1]}:{node[2]}", mode=f"{node[3]:04o}", uid=user[0],
            reason=reason,
        )  # fmt: skip


def _device_node(line: str) -> tuple[str, str, str, int] | None:
    match = _NODE.match(line.strip())
    if match:
        bits = match.group(1)
        mode = int("".join("0" if c == "-" else "1" for c in bits), 2)
        return match.group(4), match.group(2), match.group(3), mode
    short = _NODE_SHORT.match(line)
    if short and "/dev/" in short.group(1):
        return short.group(1), short.group(2), short.group(3), int(short.group(4), 8)
    return None


VARIABLES = Format(_starts_assign, _read_assign)
DOCKER_RUN = Format(_starts_run, _read_run)
