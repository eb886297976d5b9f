"""Components that the version files of CANN, NNAL, driver, firmware and the system state."""

from __future__ import annotations

from certify.environment.ascend_files import external_version, version_cfg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder


def add_info(info: dict[str, str], source: str, out: StackBuilder, confidence: str) -> bool:
    """Components that one ``key=value`` version file states; False if it is none that we know."""
    package = info.get("package_name", "").lower()
    detail = {
        key: info[name]
        for key, name in (("inner", "innerversion"), ("path", "path"), ("package", "package_name"))
        if info.get(name)
    }
    version = external_version(info)
    if info.get("arch"):
        out.add("arch", info["arch"], source, confidence)
    if package:
        component = _package_component(package)
        if component and version:
            out.add(component, version, source, confidence, **detail)
        return bool(component)
    if "ascendhal_version" in info or "compatible_version_fw" in info:
        return _driver(info, source, out, confidence)
    if "firmware_version" in info or "compatible_version_drv" in info:
        return _firmware(info, source, out, confidence)
    if version and version.count(".") == 4 and "package_version" in info:
        return _firmware(info, source, out, confidence)
    if "package_version" in info and version:
        return _driver(info, source, out, confidence)
    if "version_dir" in info or any(key.startswith("required_package") for key in info):
        component = "cann_ops" if "ops_version" in info else "cann"
        if version:
            out.add(component, version, source, confidence, file="version.info")
        return True
    if version and ("innerversion" in info or "path" in info):
        out.add("cann", version, source, confidence, **detail)
        return True
    return False


def _package_component(package: str) -> str | None:
    if "nnal" in package or "atb" in package:
        return "nnal"
    if "ops" in package or "kernels" in package:
        return "cann_ops"
    if "driver" in package:
        return "driver"
    if "firmware" in package:
        return "firmware"
    return "cann" if "cann" in package or "toolkit" in package or "nnae" in package else None


def _driver(info: dict[str, str], source: str, out: StackBuilder, confidence: str) -> bool:
    version = info.get("Version") or info.get("package_version")
    if version:
        detail = {
            key: info[name]
            for key, name in (
                ("firmware_range", "compatible_version_fw"),
                ("cann_generations", "compatible_version"),
                ("inner", "Innerversion"),
            )
            if info.get(name)
        }
        out.add("driver", version, source, confidence, **detail)
    return bool(version)


def _firmware(info: dict[str, str], source: str, out: StackBuilder, confidence: str) -> bool:
    version = info.get("Version")
    if version:
        detail = {
            key: info[name]
            for key, name in (
                ("driver_range", "compatible_version_drv"),
                ("hdk", "package_version"),
            )
            if info.get(name)
        }
        out.add("firmware", version, source, confidence, **detail)
    return bool(version)


def add_cfg(text: str, source: str, out: StackBuilder, confidence: str) -> None:
    """CANN and ops versions of a version.cfg; parts that run different versions are a signal."""
    cfg = version_cfg(text)
    running: dict[str, str] = {}
    for component, states in cfg.items():
        versions = states.get("running") or states.get("installed") or states.get("upgrade") or []
        if versions:
            running[component] = versions[-1]
    for name in ("toolkit", "runtime", "compiler", "opp"):
        if name in running:
            out.add("cann", running[name], source, confidence, file="version.cfg")
            break
    if "opp_kernel" in running:
        out.add("cann_ops", running["opp_kernel"], source, confidence, file="version.cfg")
    if len(set(running.values())) > 1:
        parts = ", ".join(f"{name} {version}" for name, version in sorted(running.items()))
        out.signal("cann-parts-differ", parts, source, parts=parts[:200])
    several = [name for name, states in cfg.items() if len(states.get("installed", [])) > 1]
    if several:
        versions_text = ", ".join(cfg[several[0]]["installed"])
        out.signal("cann-several", f"installed: {versions_text}", source, versions=versions_text)


def add_os(info: dict[str, str], source: str, out: StackBuilder, confidence: str) -> bool:
    """The system named by an os-release file."""
    name = info.get("ID") or info.get("NAME") or info.get("PRETTY_NAME", "")
    version = info.get("VERSION_ID") or info.get("VERSION", "")
    if not name:
        return False
    label = f"{name} {version}".strip() if name else ""
    out.add("os", label, source, confidence, pretty=info.get("PRETTY_NAME", label))
    return True
