"""Facts that environment variables state: the CANN tree in force, ATB's ABI, mixed paths.

The same for a live process, a container and pasted exports.
"""

from __future__ import annotations

from certify.environment.paths import atb_abi_in, cann_root_of, cann_version_in, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

# In the order in which they decide what a process loads. ASCEND_TOOLKIT_LATEST_HOME is not
# among them: it keeps naming the old path whatever is in force.
CANN_VARIABLES = (
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_OPP_PATH",
    "ASCEND_AICPU_PATH",
    "TOOLCHAIN_HOME",
)
_PATH_VARIABLES = ("LD_LIBRARY_PATH", "PYTHONPATH")


def add_variable_facts(variables: dict[str, str], source: str, out: StackBuilder) -> None:
    """Components and signals that follow from the variables alone."""
    confidence = "inferred"
    roots: dict[str, str] = {}
    for name in CANN_VARIABLES:
        value = variables.get(name, "")
        if not value:
            continue
        version = cann_version_in(value)
        if version:
            out.add("cann", version, f"{source}: {name}", confidence, path=value)
        root = cann_root_of(value)
        if root:
            roots[name] = root
    versions = {cann_version_in(root + "/") or root for root in roots.values()}
    if len(versions) > 1:
        text = ", ".join(f"{name}={root}" for name, root in roots.items())
        out.signal("cann-paths-mixed", text, source, variables=" ".join(roots))
    _path_entries(variables, roots, source, out)
    atb = variables.get("ATB_HOME_PATH", "")
    abi = atb_abi_in(atb)
    if abi:
        out.add("atb_abi", abi, f"{source}: ATB_HOME_PATH", "stated", path=atb)


def _path_entries(
    variables: dict[str, str], roots: dict[str, str], source: str, out: StackBuilder
) -> None:
    for name in _PATH_VARIABLES:
        entries = split(variables.get(name, ""))
        where = f"{source}: {name}"
        trees: list[str] = []
        abis: list[str] = []
        for entry in entries:
            version = cann_version_in(entry + "/")
            if version:
                out.add("cann", version, where, "inferred", path=entry)
                trees.append(version)
            elif (root := cann_root_of(entry)) and "ascend" in root.lower():
                trees.append(root)
            abi = atb_abi_in(entry)
            if abi:
                abis.append(abi)
        numbered = {tree for tree in trees if tree[0].isdigit()}
        if len(numbered) > 1:
            text = f"{name} holds CANN {', '.join(sorted(numbered))}"
            out.signal("cann-paths-mixed", text, where, versions=" ".join(sorted(numbered)))
        repeated = sorted(
            {entry for entry in entries if entries.count(entry) > 1 and "scend" in entry}
        )
        if repeated:
            out.signal("cann-paths-repeated", f"{name} repeats {repeated[0]}", where)
        if name == "LD_LIBRARY_PATH" and abis:
            out.add("atb_abi", abis[0], where, "stated", path="LD_LIBRARY_PATH")
        if name == "PYTHONPATH":
            _checkouts(entries, where, out)


def _checkouts(entries: list[str], where: str, out: StackBuilder) -> None:
    """Source trees that PYTHONPATH puts before site-packages."""
    for entry in entries:
        last = entry.rstrip("/").rsplit("/", 1)[-1].lower()
        if last.startswith("megatron"):
            out.signal("megatron-path", entry, where, path=entry)
