"""torch_npu: wheel version, git_version (which product release it is), completeness."""

from __future__ import annotations

import re

from certify.environment.ascend_files import literal_assignments
from certify.environment.files import join
from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.probes.host import Host

_REQUIRES = lazy(r"^Requires-Dist:\s*torch\s*\(?\s*(==[^\s;)]+)", re.M)


def probe(host: Host) -> None:
    """Fills torch_npu and torch_npu_git; a folder that cannot be the real module is a signal."""
    root, out = host.root, host.out
    for folder in host.import_path:
        package = join(folder, "torch_npu")
        if not root.is_dir(package):
            continue
        names = root.names(package)
        text = root.read(join(package, "version.py"), 65_536)
        if text is None or "__init__.py" not in names:
            _residue(host, package, names)
            continue
        values = literal_assignments(text)
        source = join(package, "version.py")
        version, git = values.get("__version__"), values.get("git_version")
        compiled = any(name.startswith("_C.") for name in names)
        if not compiled:
            out.signal(
                "module-shadow-path", f"{package} has no compiled _C module", package,
                module="torch_npu", path=package,
            )  # fmt: skip
            continue
        if version:
            detail = {"git_version": git} if git else {}
            out.add("torch_npu", version, source, path=package, **detail)
        if git and re.fullmatch(r"[0-9a-f]{7,40}", git):
            out.add("torch_npu_git", git, source)
    listed = out.packages.get("torch-npu")
    if listed and not out.has("torch_npu"):
        out.add("torch_npu", listed, "dist-info")
    _requirement(host)


def _residue(host: Host, package: str, names: list[str]) -> None:
    """A folder without __init__.py is still importable, as an empty namespace package."""
    if "__init__.py" in names:
        host.out.signal(
            "module-shadow-path", f"{package} is a source folder without version.py", package,
            module="torch_npu", path=package,
        )  # fmt: skip
    else:
        host.out.signal(
            "namespace-folder", f"{package} has no __init__.py", package, module="torch_npu",
            path=package,
        )  # fmt: skip


def _requirement(host: Host) -> None:
    """What the wheel itself asks of torch."""
    for site in host.sites:
        for name in host.root.names(site):
            if name.lower().replace("-", "_").startswith("torch_npu_") and name.endswith(
                ".dist-info"
            ):
                text = host.root.read(join(site, name, "METADATA"), 262_144) or ""
                match = _REQUIRES.search(text)
                if match:
                    host.out.add("torch_npu_requires", match.group(1), join(site, name))
                return
