"""CANN: every installed version, the one in force, ops package and NNAL beside it.

Two layouts exist: ``ascend-toolkit/<ver>`` (up to 8.3) and ``cann-<ver>`` (from 8.5). The process
loads what ASCEND_HOME_PATH names; without it, what the pointer ``cann`` or ``latest`` names.
"""

from __future__ import annotations

import re

from certify.environment.ascend_files import external_version, key_values, nnal_version
from certify.environment.environment_facts import add_variable_facts
from certify.environment.files import join
from certify.environment.paths import cann_root_of
from certify.environment.version_files import add_cfg
from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.files import Root
    from certify.environment.probes.host import Host

_ARCHES = ("aarch64-linux", "x86_64-linux", "arm64-linux")
_INFO = "ascend_toolkit_install.info"
_NUMBERED = lazy(r"^\d+\.\d+")
_MAX_TREES = 20


def probe(host: Host) -> None:
    """Fills cann, cann_ops and nnal; the first sighting of cann is the one in force."""
    prefixes = _prefixes(host)
    trees = _trees(host, prefixes)
    in_force = _in_force(host, trees)
    versions: dict[str, str] = {}
    for tree in sorted(trees, key=lambda tree: tree != in_force):
        version, source, info = toolkit_version(host.root, tree)
        if version is None:
            continue
        versions[tree] = version
        detail = {"path": tree, "in_force": "yes" if tree == in_force else "no"}
        if info.get("innerversion"):
            detail["inner"] = info["innerversion"]
        host.out.add("cann", version, source, "certain", **detail)
    if in_force:
        _parts(host, in_force, versions.get(in_force), _has_toolkit(host.root, in_force))
    _several(host, versions, in_force)
    _variables(host, versions, in_force)
    _nnal(host, prefixes)


def _prefixes(host: Host) -> list[str]:
    """Folders that installers use: the system one, the one of the driver's record, homes."""
    found = ["/usr/local/Ascend"]
    record = key_values(host.root.read("/etc/ascend_install.info", 65_536) or "")
    for key in ("Driver_Install_Path_Param", "Firmware_Install_Path_Param"):
        if record.get(key):
            found.append(record[key])
    homes = ["/root", *(join("/home", name) for name in host.root.names("/home")[:50])]
    found += [join(home, "Ascend") for home in homes]
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        root = cann_root_of(host.variables.get(name, "") + "/")
        if root:
            parent = root.rsplit("/", 1)[0]
            found.append(parent.removesuffix("/ascend-toolkit"))
    return [prefix for prefix in dict.fromkeys(found) if host.root.is_dir(prefix)]


def _trees(host: Host, prefixes: list[str]) -> list[str]:
    """Real folders of every CANN tree below the prefixes and of the variables."""
    places: list[str] = []
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        value = host.variables.get(name)
        if value:
            places.append(value)
    for prefix in prefixes:
        names = host.root.names(prefix)
        if "cann" in names:
            places.append(join(prefix, "cann"))
        places += [join(prefix, name) for name in names if name.startswith("cann-")]
        for kind in ("ascend-toolkit", "nnae"):
            inner = host.root.names(join(prefix, kind))
            if "latest" in inner:
                places.append(join(prefix, kind, "latest"))
            places += [join(prefix, kind, name) for name in inner if _NUMBERED.match(name)]
    trees: list[str] = []
    for place in places:
        real = _tree_of(host.root, place)
        if real and real not in trees:
            trees.append(real)
    return trees[:_MAX_TREES]


def _tree_of(root: Root, place: str) -> str | None:
    """The versioned folder behind a pointer. ``latest`` is a real folder full of links into it."""
    real = root.resolve(place)
    if real is None or not root.is_dir(real):
        return None
    if real.endswith("/latest"):
        for part in ("toolkit", "runtime", "compiler", "opp"):
            target = root.resolve(join(real, part))
            if target and not target.startswith(real + "/") and root.is_dir(target):
                return target.rsplit("/", 1)[0]
    return real


def toolkit_version(root: Root, tree: str) -> tuple[str | None, str, dict[str, str]]:
    """Version, source and further facts of a tree: its info file, else version.cfg, else a
    component's version.info, else the folder's name."""
    for arch in (*_ARCHES, "."):
        for name in (_INFO, "ascend_nnae_install.info"):
            path = join(tree, arch, name)
            text = root.read(path, 65_536)
            info = key_values(text) if text else {}
            if info.get("version"):
                return info["version"], path, info
    for part in ("toolkit", "runtime", "compiler"):
        path = join(tree, part, "version.info")
        text = root.read(path, 65_536)
        version = external_version(key_values(text)) if text else None
        if version:
            return version, path, {}
    named = re.search(r"(?:cann-|/)(\d+\.\d+[\w.-]*)$", tree)
    if named and (root.is_dir(join(tree, "opp")) or root.is_dir(join(tree, "lib64"))):
        return named.group(1), tree, {}
    return None, tree, {}


def _in_force(host: Host, trees: list[str]) -> str | None:
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        value = host.variables.get(name)
        tree = _tree_of(host.root, value) if value else None
        if tree in trees:
            return tree
    return trees[0] if trees else None


def _has_toolkit(root: Root, tree: str) -> bool:
    """Whether the installer of the toolkit has left its record in the tree."""
    return any(root.is_file(join(tree, arch, _INFO)) for arch in (*_ARCHES, "."))


def _parts(host: Host, tree: str, version: str | None, toolkit: bool) -> None:
    """Ops package (kernels) and version.cfg of the tree in force.

    toolkit: the toolkit is installed there, so that its operators must be too.
    """
    root, out = host.root, host.out
    cfg = join(tree, "version.cfg")
    text = root.read(cfg, 262_144) or root.read(join(tree, "../latest/version.cfg"), 262_144)
    if text and version is None:
        add_cfg(text, cfg, out, "certain")
    for path in (
        *(join(tree, arch, "ascend_ops_install.info") for arch in _ARCHES),
        join(tree, "opp_kernel/version.info"),
        join(tree, "ops/version.info"),
        join(tree, "opp/built-in/op_impl/ai_core/tbe/kernel/version.info"),
    ):
        found = root.read(path, 65_536)
        info = key_values(found) if found else {}
        ops = info.get("version") or external_version(info)
        if ops:
            out.add("cann_ops", ops, path, "certain", path=tree)
            break
    chips = [
        name
        for name in root.names(join(tree, "opp/built-in/op_impl/ai_core/tbe/kernel"))
        if name.startswith("ascend")
    ]
    if chips:
        out.add("cann_ops_chips", " ".join(chips), join(tree, "opp/built-in"), "certain")
    elif (toolkit or root.is_dir(join(tree, "opp"))) and not (out.has("cann_ops") or root.denied):
        out.signal("kernels-absent", f"{tree} has no ops package", tree, path=tree)
    if root.denied:
        out.signal("unreadable", ", ".join(root.denied[:5]), "permissions")


def _several(host: Host, versions: dict[str, str], in_force: str | None) -> None:
    if len(set(versions.values())) > 1:
        text = ", ".join(f"{version} in {tree}" for tree, version in versions.items())
        host.out.signal(
            "cann-several", text, "installed CANN", versions=" ".join(sorted(versions.values())),
            in_force=versions.get(in_force or "", ""),
        )  # fmt: skip


def _variables(host: Host, versions: dict[str, str], in_force: str | None) -> None:
    """What the environment says, against what is installed."""
    variables, out = host.variables, host.out
    add_variable_facts(variables, "environment", out)
    if not versions or not host.root.live:
        return
    if "ASCEND_HOME_PATH" not in variables and "ASCEND_TOOLKIT_HOME" not in variables:
        path = join(in_force or "/usr/local/Ascend/cann", "set_env.sh")
        if not host.root.is_file(path):
            path = "/usr/local/Ascend/ascend-toolkit/set_env.sh"
        out.signal("cann-env-unset", "ASCEND_HOME_PATH is not set", "environment", path=path)
        return
    value = variables.get("ASCEND_HOME_PATH") or variables["ASCEND_TOOLKIT_HOME"]
    if _tree_of(host.root, value) is None:
        out.signal(
            "cann-env-differs", f"ASCEND_HOME_PATH={value} does not exist", "environment",
            path=value,
        )  # fmt: skip


def _nnal(host: Host, prefixes: list[str]) -> None:
    places: list[str] = []
    home = host.variables.get("ATB_HOME_PATH", "")
    if "/atb/" in home:
        places.append(home.split("/atb/", 1)[0] + "/atb/" + home.split("/atb/", 1)[1].split("/")[0])
    for prefix in prefixes:
        base = join(prefix, "nnal/atb")
        names = host.root.names(base)
        places += [join(base, name) for name in ("latest", *names) if name in names]
    seen: set[str] = set()
    for place in places:
        path = join(place, "version.info")
        real = host.root.resolve(path)
        text = host.root.read(path, 65_536)
        if text is None or real is None or real in seen:
            continue
        seen.add(real)
        info = nnal_version(text)
        if "version" in info:
            detail = {key: value for key, value in info.items() if key != "version"}
            host.out.add("nnal", info["version"], path, "certain", path=place, **detail)
