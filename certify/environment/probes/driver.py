"""Driver and firmware from their version files, and how this container sees the host's."""

from __future__ import annotations

import re

from certify.environment.ascend_files import key_values
from certify.environment.files import join
from certify.environment.paths import split
from certify.environment.version_files import add_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.probes.host import Host


def probe(host: Host) -> None:
    """Fills driver and firmware; missing mounts of a container are signals."""
    root, out = host.root, host.out
    record = key_values(root.read("/etc/ascend_install.info", 65_536) or "")
    places = [record.get("Driver_Install_Path_Param", ""), "/usr/local/Ascend"]
    for place in dict.fromkeys(filter(None, places)):
        for part in ("driver", "firmware"):
            path = join(place, part, "version.info")
            text = root.read(path, 65_536)
            if text:
                add_info(key_values(text), path, out, "certain")
    nvidia = root.read("/proc/driver/nvidia/version", 4096)
    version = re.search(r"Kernel Module.{0,40}?\s(\d{3}\.\d[\d.]*)", nvidia) if nvidia else None
    if version:
        out.add("cuda_driver", version.group(1), "/proc/driver/nvidia/version")
    _container(host)


def in_container(host: Host) -> bool:
    """Whether these files are those of a container."""
    root = host.root
    if root.stat("/.dockerenv") or root.stat("/run/.containerenv"):
        return True
    if not root.live:
        return False
    if "container" in host.variables:
        return True
    groups = root.read("/proc/1/cgroup", 65_536) or ""
    return any(word in groups for word in ("docker", "kubepods", "containerd", "libpod"))


def _container(host: Host) -> None:
    root, out = host.root, host.out
    if not in_container(host):
        return
    out.view = "container"
    tool = next(
        (p for p in ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi") if root.is_file(p)), None
    )
    libraries = root.is_dir("/usr/local/Ascend/driver/lib64")
    nodes = [name for name in root.names("/dev") if name.startswith("davinci")]
    if (tool or nodes) and not libraries:
        out.signal(
            "library-driver",
            "no /usr/local/Ascend/driver/lib64 beside " + (tool or f"/dev/{nodes[0]}"),
            "container",
            library="/usr/local/Ascend/driver/lib64",
        )
    loader = split(host.variables.get("LD_LIBRARY_PATH", ""))
    if root.live and libraries and nodes and not any("/driver/lib64" in path for path in loader):
        configured = any(
            "driver/lib64" in (root.read(join("/etc/ld.so.conf.d", name), 65_536) or "")
            for name in root.names("/etc/ld.so.conf.d")[:100]
        )
        if not configured:
            out.signal(
                "driver-not-on-path", "LD_LIBRARY_PATH has no driver/lib64", "environment",
                path="/usr/local/Ascend/driver/lib64",
            )  # fmt: skip
