"""Every Python package, from the names of dist-info folders: nothing is imported and no metadata
file is opened but for the few packages whose path matters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from certify.environment.ascend_files import literal_assignments
from certify.environment.files import join
from certify.environment.names import component_of, normal
from certify.light import lazy

if TYPE_CHECKING:
    from certify.environment.probes.host import Host

_INFO = lazy(r"^([A-Za-z0-9][\w.+-]*?)-(\d[\w.+!-]*?)(?:-py3\.\d+)?\.(?:dist-info|egg-info)$")
# Components that have a probe of their own, which knows more than the folder's name.
_OWN_PROBE = frozenset(("torch", "torch_npu", "mindspeed_core", "mindspeed_llm", "megatron"))
_CUDA = lazy(r"\+cu(\d+)")


def probe(host: Host) -> None:
    """Fills `packages` and the component of every package that the matrix knows."""
    for site in host.sites:
        for name in host.root.names(site):
            match = _INFO.match(name)
            if not match:
                continue
            key, version = normal(match.group(1)), match.group(2)
            if key in host.out.packages:
                continue
            host.out.packages[key] = version
            component = component_of(key)
            if component and component not in _OWN_PROBE:
                host.out.add(component, version, join(site, name))
    _torch(host)


def _torch(host: Host) -> None:
    """torch's own version file says more than the metadata: local version, CUDA, C++ ABI."""
    for site in host.sites:
        folder = join(site, "torch")
        text = host.root.read(join(folder, "version.py"), 65_536)
        if text is None:
            continue
        values = literal_assignments(text)
        version = values.get("__version__")
        if version:
            detail = {"cuda": values["cuda"]} if values.get("cuda") else {}
            host.out.add("torch", version, join(folder, "version.py"), path=folder, **detail)
            if values.get("cuda"):
                host.out.add("cuda", values["cuda"], join(folder, "version.py"))
        _abi(host, folder)
    metadata = host.out.packages.get("torch")
    if metadata and not host.out.has("torch"):
        host.out.add("torch", metadata, "dist-info")
        host.out.signal(
            "namespace-folder", f"torch {metadata} is listed but has no version.py", "dist-info",
            module="torch",
        )  # fmt: skip


def _abi(host: Host, folder: str) -> None:
    config = join(folder, "share/cmake/Torch/TorchConfig.cmake")
    text = host.root.read(config, 65_536)
    match = re.search(r"_GLIBCXX_USE_CXX11_ABI=([01])", text or "")
    if match:
        host.out.add("torch_abi", match.group(1), config)
