"""triton and triton-ascend share one folder: whose files are really there?"""

from __future__ import annotations

from certify.environment.files import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.probes.host import Host

_MAX_ROWS = 20_000
_SHARED = "triton/_C/libtriton"


def probe(host: Host) -> None:
    """Signals files of triton-ascend that are missing or were overwritten by plain triton."""
    for site in host.sites:
        infos = {"triton-ascend": "", "triton": ""}
        for name in host.root.names(site):
            low = name.lower().replace("-", "_")
            if low.startswith("triton_ascend_") and low.endswith(".dist_info"):
                infos["triton-ascend"] = name
            elif low.startswith("triton_") and low.endswith(".dist_info") and low[7].isdigit():
                infos["triton"] = name
        if infos["triton-ascend"]:
            _check(host, site, infos)
            return
        package = join(site, "triton")
        if host.root.is_dir(package) and not infos["triton"]:
            if "__init__.py" not in host.root.names(package):
                host.out.signal(
                    "namespace-folder", f"{package} has no __init__.py", package,
                    module="triton", path=package,
                )  # fmt: skip
            return


def _record(host: Host, site: str, info: str) -> dict[str, tuple[str, int]]:
    """Path -> (hash, size) of a RECORD file."""
    import csv

    text = host.root.read(join(site, info, "RECORD"), 8 << 20) if info else None
    rows: dict[str, tuple[str, int]] = {}
    for row in csv.reader((text or "").replace("\0", "").splitlines()[:_MAX_ROWS]):
        if len(row) >= 3 and row[0]:
            size = int(row[2]) if row[2].isdigit() and len(row[2]) < 15 else -1
            rows[row[0]] = (row[1].removeprefix("sha256="), size)
    return rows


def _check(host: Host, site: str, infos: dict[str, str]) -> None:
    own = _record(host, site, infos["triton-ascend"])
    plain = _record(host, site, infos["triton"])
    if not own:
        return
    root, out = host.root, host.out
    missing = [
        path
        for path in own
        if path.startswith("triton/")
        and not path.endswith(".pyc")
        and not root.is_file(join(site, path))
    ]
    if missing:
        out.signal(
            "triton-files-missing", f"{len(missing)} files of triton-ascend, e.g. {missing[0]}",
            join(site, infos["triton-ascend"], "RECORD"), count=str(len(missing)), path=missing[0],
        )  # fmt: skip
    if not root.is_dir(join(site, "triton/backends/ascend")) and not missing:
        out.signal(
            "triton-files-missing", "no triton/backends/ascend", join(site, "triton/backends"),
            count="1", path="triton/backends/ascend",
        )  # fmt: skip
    for path, (digest, size) in own.items():
        if not path.startswith(_SHARED) or not path.endswith(".so"):
            continue
        if _foreign(host, join(site, path), digest, size, plain.get(path)):
            out.signal(
                "triton-files-foreign", f"{path} is not the file that triton-ascend installed",
                join(site, infos["triton-ascend"], "RECORD"), path=path,
                owner="triton" if path in plain else "",
            )  # fmt: skip


def _foreign(host: Host, path: str, digest: str, size: int, plain: tuple[str, int] | None) -> bool:
    """Sizes first: the library has a hundred megabytes. Equal sizes are hashed only when the other
    package claims the same file with another hash."""
    found = host.root.stat(path)
    if found is None:
        return False
    if size >= 0 and found.st_size != size:
        return True
    if plain is None or plain[0] == digest or not digest:
        return False
    return host.root.digest(path) not in (digest, None)
