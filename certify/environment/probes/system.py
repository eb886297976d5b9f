"""Operating system, architecture, C library, libstdc++ and the Python in use."""

from __future__ import annotations

import os
import re
import sys

from certify.environment.ascend_files import key_values
from certify.environment.files import join
from certify.environment.probes.host import python_of
from certify.environment.version_files import add_os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.probes.host import Host

_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
_LIBRARY_FOLDERS = (
    "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/lib64",
)  # fmt: skip


def probe(host: Host) -> None:
    """Fills os, arch, glibc, libstdcxx and python."""
    root, out = host.root, host.out
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = root.read(path, 65_536)
        if text and add_os(key_values(text), path, out, "certain"):
            break
    arch, source = _arch(host)
    if arch:
        out.add("arch", arch, source)
    glibc, source = _glibc(host)
    if glibc:
        out.add("glibc", glibc, source)
    _libstdcxx(host)
    _python(host)


def _arch(host: Host) -> tuple[str | None, str]:
    if host.root.live:
        return os.uname().machine, "uname"
    for path in ("/bin/sh", "/usr/bin/env", "/bin/ls", "/usr/bin/bash"):
        head = host.root.read_bytes(path, 20)
        if head and head.startswith(b"\x7fELF"):
            return _MACHINES.get(int.from_bytes(head[18:20], "little")), path
    return None, ""


def _glibc(host: Host) -> tuple[str | None, str]:
    if host.root.live:
        try:
            name = os.confstr("CS_GNU_LIBC_VERSION") or ""
        except (ValueError, OSError):
            name = ""
        return (name.split()[-1] if name.startswith("glibc") else None), "confstr"
    for folder in _LIBRARY_FOLDERS:
        path = join(folder, "libc.so.6")
        named = re.search(r"libc-(\d+\.\d+)\.so", host.root.resolve(path) or "")
        if named:
            return named.group(1), path
        raw = host.root.read_bytes(path, 4 << 20)
        found = re.search(rb"GNU C Library [^\n]{0,60}version (\d+\.\d+)", raw) if raw else None
        if found:
            return found.group(1).decode(), path
    return None, ""


def _libstdcxx(host: Host) -> None:
    """The file name carries the interface number: libstdc++.so.6.0.30 offers GLIBCXX_3.4.30."""
    for folder in _LIBRARY_FOLDERS:
        path = join(folder, "libstdc++.so.6")
        target = host.root.link_target(path) or ""
        match = re.search(r"libstdc\+\+\.so\.6\.0\.(\d+)", target)
        if match:
            host.out.add("libstdcxx", f"3.4.{match.group(1)}", path, file=target)
            return


def _python(host: Host) -> None:
    """On a live host the interpreter itself, unless an environment of another one is active."""
    first = python_of(host.sites[0]) if host.sites else None
    own = ".".join(map(str, sys.version_info[:3]))
    if host.root.live and (first is None or own.startswith(first + ".")):
        host.python = own
        host.out.add("python", own, sys.executable or "sys.version_info")
        return
    for site in host.sites:
        version = python_of(site)
        if version:
            host.python = host.python or version
            host.out.add("python", version, site)
            if not host.root.live:
                break
