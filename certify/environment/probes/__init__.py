"""Finds what is installed on a host or in a tree, importing nothing of it.

`PROBES` is the registry: one component, or a group that shares its files, each. A probe that fails
becomes a section ``unparsed`` and takes nothing else down.
"""

from __future__ import annotations

import os

from certify.environment.builder import StackBuilder
from certify.environment.files import Root
from certify.environment.names import may_record
from certify.environment.probes import (
    cann,
    devices,
    driver,
    packages,
    system,
    torch_npu,
    training,
    triton,
)
from certify.environment.probes.host import Host, added_by_pth, find_sites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from certify.environment.stack import Stack

PROBES: dict[str, Callable[[Host], None]] = {
    "system": system.probe,
    "packages": packages.probe,
    "torch_npu": torch_npu.probe,
    "triton": triton.probe,
    "training": training.probe,
    "cann": cann.probe,
    "driver": driver.probe,
    "devices": devices.probe,
}


def inspect(
    root: str = "/", *, tools: bool = True, environ: Mapping[str, str] | None = None
) -> Stack:
    """The stack below `root`.

    tools: run npu-smi (live host only). environ: the variables of the process that would train;
    the live host's own when None, none for a tree.
    """
    files = Root(root)
    if environ is None:
        environ = os.environ if files.live else {}
    variables = {k: v[:16_000] for k, v in environ.items() if may_record(k)}
    host = Host(files, StackBuilder("host"), variables, tools)
    host.out.variables.update(variables)
    _guarded(host, "import path", _import_path)
    for name, run in PROBES.items():
        _guarded(host, name, run)
    if tools and files.live:
        _guarded(host, "npu-smi", devices.run_tools)
    return host.out.build()


def _import_path(host: Host) -> None:
    from certify.environment.paths import split

    host.sites = find_sites(host.root, host.variables)
    entries = split(host.variables.get("PYTHONPATH", ""))
    if host.root.live:
        # Python puts the folder it is started in first; source folders shadow packages there.
        entries.insert(0, os.getcwd())
    for site in host.sites:
        entries += added_by_pth(host.root, site)
    host.search = [path for path in dict.fromkeys(entries) if host.root.is_dir(path)]


def _guarded(host: Host, name: str, run: Callable[[Host], None]) -> None:
    try:
        run(host)
    except Exception as error:
        # A broken host must still get an answer about everything else.
        if os.environ.get("CERTIFY_DEBUG"):
            raise
        host.out.section(name, "unparsed", 0, 0, f"probe failed: {type(error).__name__}: {error}")
