"""Every Python package, from the names of dist-info folders: nothing is imported and no metadata
file is opened but for the few packages whose path matters."""

from __future__ import annotations

import re

from certify.environment.ascend_files import literal_assignments
from certify.environment.files import join
from certify.environment.names import component_of, normal
from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.probes.host import Host

_INFO = lazy(r"^([A-Za-z0-9][\w.+-]*?)-(\d[\w.+!-]*?)(?:-py3\.\d+)?\.(?:dist-info|egg-info)$")
# Components that have a probe of their own, which knows more than the folder's name.
_OWN_PROBE = frozenset(("torch", "torch_npu", "mindspeed_core", "mindspeed_llm", "megatron"))
_CUDA = lazy(r"\+cu(\d+)")


def probe(host: Host) -> None:
    """Fills `packages` and the component of every package that the matrix knows."""
    for site in host.sites:
        found: dict[str, dict[str, str]] = {}
        for name in host.root.names(site):
            match = _INFO.match(name)
            if match:
                found.setdefault(normal(match.group(1)), {}).setdefault(match.group(2), name)
        for key, versions in found.items():
            if key in host.out.packages:
                continue
            if len(versions) > 1 and component_of(key):
                versions = _twice(host, site, key, versions)
            host.out.packages[key] = next(iter(versions))
            component = component_of(key)
            if component and component not in _OWN_PROBE:
                for version, name in versions.items():
                    host.out.add(component, version, join(site, name), path=join(site, name))
    _torch(host)


def _twice(host: Host, site: str, key: str, versions: dict[str, str]) -> dict[str, str]:
    """Two records of one distribution in one folder: an update that was cut off. Both are said;
    the package's own version file tells which of them is there, and that one comes first."""
    module = key.replace("-", "_")
    own = None
    for file in ("version.py", "_version.py", "__init__.py"):
        text = host.root.read(join(site, module, file), 65_536)
        values = literal_assignments(text) if text else {}
        own = values.get("__version__") or values.get("version")
        if own:
            break
    there = next((v for v in versions if own and v.split("+")[0] == own.split("+")[0]), None)
    listed = ", ".join(versions)
    host.out.signal(
        "distribution-twice", f"{key} is recorded twice in {site}: {listed}", site, module=key,
        versions=listed, there=there or "?",
    )  # fmt: skip
    return dict(sorted(versions.items(), key=lambda item: item[0] != there))


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
