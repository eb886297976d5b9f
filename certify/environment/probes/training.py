"""MindSpeed Core, MindSpeed-LLM, Megatron, FSDPTurbo: wherever the import path finds them.

They come from editable installs, symbolic links, copied folders and PYTHONPATH checkouts; the
version in their metadata names the Megatron line only, so the release is taken from the branch or
tag of the checkout, or from fingerprints of files for copies without .git.
"""

from __future__ import annotations

from certify.environment.ascend_files import literal_assignments
from certify.environment.files import join
from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.probes.checkout import Checkout
    from certify.environment.probes.host import Host

# module -> component
_MODULES = {
    "mindspeed": "mindspeed_core",
    "mindspeed_llm": "mindspeed_llm",
    "fsdpturbo": "fsdpturbo",
    "mindspeed_mm": "mindspeed_mm",
}
_MAPPED = lazy(r"['\"](\w+)['\"]\s*:\s*['\"](/[^'\"]{1,400})['\"]")
_RELEASE = lazy(r"^v?(\d+\.\d+(?:\.(?:RC\d+|\d+))*(?:_core_r[\d.]+)?|core_r[\d.]+)$")


def probe(host: Host) -> None:
    """Fills mindspeed_core, mindspeed_llm, fsdpturbo and megatron, with every copy found."""
    for module, component in _MODULES.items():
        places = _places(host, module)
        for folder in places:
            _source_tree(host, module, component, folder)
        if len(places) > 1:
            _several(host, module, component)
    _megatron(host)
    _misnamed_links(host)
    for component, package in (("mindspeed_core", "mindspeed"), ("mindspeed_llm", "mindspeed-llm")):
        version = host.out.packages.get(package)
        if version:
            host.out.add(f"{component}_dist", version, "dist-info")
            if not host.out.has(component) and version.startswith("0.0.1.dev"):
                host.out.signal(
                    "placeholder-package", f"{package} {version} is a placeholder", "dist-info",
                    name=package,
                )  # fmt: skip


def _several(host: Host, module: str, component: str) -> None:
    """More than one tree of a module can be imported: which one, the order of the path decides."""
    found = [f for f in host.out.sightings(component) if f.detail.get("path")]
    if len(found) < 2:
        return
    text = "; ".join(f"{f.detail['path']} ({f.version})" for f in found[:4])
    host.out.signal(
        "module-several", text, found[0].source, module=module, first=found[0].detail["path"],
        second=found[1].detail["path"], versions=" | ".join(f.version for f in found[:4]),
    )  # fmt: skip


def _places(host: Host, module: str) -> list[str]:
    """Folders of the module in import order; editable finders are read as text."""
    found: list[str] = []
    for folder in host.import_path:
        path = join(folder, module)
        if host.root.is_dir(path):
            found.append(path)
    for site in host.sites:
        for name in host.root.names(site):
            if name.startswith("__editable__") and name.endswith("_finder.py"):
                text = host.root.read(join(site, name), 262_144) or ""
                found += [path for key, path in _MAPPED.findall(text) if key == module]
    real: dict[str, str] = {}
    for path in found:
        inside = host.root.resolve(path)
        if inside and host.root.is_dir(inside):
            real.setdefault(inside, path)
    return list(real.values())


def _misnamed_links(host: Host) -> None:
    """A link to a module under another name: ``MindSpeed -> .../mindspeed`` cannot be imported."""
    root = host.root
    for folder in host.search:
        for name in root.names(folder):
            module = (root.link_target(join(folder, name)) or "").rstrip("/").rsplit("/", 1)[-1]
            wanted = module in _MODULES or module == "megatron"
            if wanted and name != module and not root.is_dir(join(folder, module)):
                host.out.signal(
                    "module-link-name", f"{join(folder, name)} leads to {module}, by another name",
                    folder, module=module, path=join(folder, name),
                )  # fmt: skip


def _source_tree(host: Host, module: str, component: str, folder: str) -> None:
    # Only where there is a source tree: most hosts have none.
    from certify.environment.fingerprints import release_of
    from certify.environment.probes.checkout import find_checkout

    root, out = host.root, host.out
    link = root.link_target(folder)
    inside = root.resolve(folder) or folder
    if "__init__.py" not in root.names(folder):
        out.signal(
            "namespace-folder", f"{folder} has no __init__.py", folder, module=module, path=folder
        )
        return
    checkout = find_checkout(root, folder)
    version, how = version_of(checkout)
    if version is None:
        version = release_of(root, inside, component)
        how = "fingerprint"
    detail = _detail(checkout, inside, link)
    detail["install"] = _install(host, inside, checkout is not None)
    confidence = "certain" if how in ("branch", "tag") else "inferred"
    out.add(component, version or "unknown", f"{folder} ({how})", confidence, **detail)


def _install(host: Host, inside: str, checkout: bool) -> str:
    """How a module came here: ``pip`` (into site-packages), ``checkout`` or ``copy``."""
    if any(inside.startswith(site + "/") for site in host.sites):
        return "pip"
    return "checkout" if checkout else "copy"


def version_of(checkout: Checkout | None) -> tuple[str | None, str]:
    """The release name that a checkout carries, and whether by branch, tag or commit."""
    if checkout is None:
        return None, "copy"
    if checkout.branch and (
        checkout.branch in ("master", "main") or _RELEASE.match(checkout.branch)
    ):
        return checkout.branch, "branch"
    if checkout.tag:
        return checkout.tag.removeprefix("v"), "tag"
    if checkout.branch:
        return checkout.branch, "branch"
    return (f"commit {checkout.commit[:12]}" if checkout.commit else None), "commit"


def _detail(checkout: Checkout | None, inside: str, link: str | None) -> dict[str, str]:
    detail = {"path": inside}
    if link:
        detail["link"] = link
    if checkout is not None:
        for key, value in (
            ("branch", checkout.branch), ("commit", checkout.commit), ("tag", checkout.tag)
        ):  # fmt: skip
            if value:
                detail[key] = value
    return detail


def _megatron(host: Host) -> None:
    """Every megatron.core that could be imported; more than one tree is a signal."""
    root, out = host.root, host.out
    trees: list[tuple[str, str]] = []
    for folder in _places(host, "megatron"):
        info = root.read(join(folder, "core/package_info.py"), 65_536)
        inside = root.resolve(folder) or folder
        if info is None:
            if "core" in root.names(folder):
                out.add("megatron", "unknown", folder, path=inside)
                trees.append((inside, "unknown"))
            continue
        from certify.environment.probes.checkout import find_checkout

        values = literal_assignments(info)
        numbers = [values.get(key, "0") for key in ("MAJOR", "MINOR", "PATCH")]
        version = ".".join(numbers) + values.get("PRE_RELEASE", "")
        checkout = find_checkout(root, folder)
        detail = _detail(checkout, inside, root.link_target(folder))
        out.add("megatron", version, join(folder, "core/package_info.py"), **detail)
        trees.append((inside, version))
    if len(trees) > 1:
        text = "; ".join(f"{path} ({version})" for path, version in trees)
        out.signal(
            "megatron-several", text, trees[0][0], first=trees[0][0], second=trees[1][0],
            versions=" ".join(version for _, version in trees),
        )  # fmt: skip
    listed = out.packages.get("megatron-core")
    if listed and not trees:
        out.add("megatron", listed, "dist-info")
