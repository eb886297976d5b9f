"""What the probes share: the file system, the environment, and the import path of the Python that
trains."""

from __future__ import annotations

import os
import re
import sys

from certify.environment.files import Root, join
from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field

    from certify.environment.builder import StackBuilder
else:
    from certify.light import dataclass, field

_PYTHON = lazy(r"/python(3\.\d{1,2})/(?:site|dist)-packages$")
# Folders of users, who keep environments there.
_HOMES = ("root", "home/*")
# Where a Python may live in an image; ``*`` stands for one folder.
_PLACES = (
    "/usr/local/python*/lib/python3*/site-packages",
    "/usr/local/lib/python3*/site-packages",
    "/usr/local/lib/python3*/dist-packages",
    "/usr/lib/python3*/site-packages",
    "/usr/lib/python3/dist-packages",
    "/opt/*/lib/python3*/site-packages",
    "/opt/*/envs/*/lib/python3*/site-packages",
    *(f"/{home}/*/lib/python3*/site-packages" for home in _HOMES),
    *(f"/{home}/*/envs/*/lib/python3*/site-packages" for home in _HOMES),
    "/usr/local/*/envs/*/lib/python3*/site-packages",
)
_MAX_SITES = 40


@dataclass
class Host:
    """root: files; variables: environment of the process that would train (allow-list);
    sites: site-packages folders, the one in force first; search: import path before them
    (PYTHONPATH and the folders that .pth files add); tools: whether npu-smi may be run."""

    root: Root
    out: StackBuilder
    variables: dict[str, str]
    tools: bool = False
    sites: list[str] = field(default_factory=list)
    search: list[str] = field(default_factory=list)
    python: str | None = None

    @property
    def import_path(self) -> list[str]:
        """Folders in the order in which Python would look for a module."""
        return [*self.search, *self.sites]


def find_sites(root: Root, variables: dict[str, str]) -> list[str]:
    """The site-packages folders that exist. On a live host those of an activated environment
    come first, then those of the interpreter that runs us; in a tree all usual places, those
    with torch_npu or torch first."""
    if root.live:
        return _live_sites(root, variables)
    found: list[str] = []
    for place in _PLACES:
        for path in _expand(root, place):
            inside = root.resolve(path)
            if inside and inside not in found and root.is_dir(inside):
                found.append(inside)
    found = found[:_MAX_SITES]

    def weight(site: str) -> int:
        if root.is_dir(join(site, "torch_npu")):
            return 0
        return 1 if root.is_dir(join(site, "torch")) else 2

    return sorted(found, key=weight)


def _live_sites(root: Root, variables: dict[str, str]) -> list[str]:
    sites: list[str] = []
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = variables.get(name)
        if prefix and os.path.realpath(prefix) != os.path.realpath(sys.prefix):
            sites += _expand(root, join(prefix, "lib/python3*/site-packages"))
    sites += [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    return [p for p in dict.fromkeys(sites) if root.is_dir(p)]


def _expand(root: Root, pattern: str) -> list[str]:
    """Paths that fit a pattern whose parts may hold ``*``; at most 200."""
    paths = ["/"]
    for part in pattern.strip("/").split("/"):
        if "*" not in part:
            paths = [join(path, part) for path in paths]
            continue
        expression = lazy(re.escape(part).replace(r"\*", ".*"))
        grown = []
        for path in paths:
            for name in root.names(path):
                if expression.fullmatch(name):
                    grown.append(join(path, name))
        paths = grown[:200]
    return [path for path in paths if root.is_dir(path)]


def python_of(site: str) -> str | None:
    """The Python version in the path of a site-packages folder."""
    match = _PYTHON.search(site)
    return match.group(1) if match else None


def added_by_pth(root: Root, site: str) -> list[str]:
    """Folders that the .pth and .egg-link files of a site put on the path."""
    added: list[str] = []
    for name in root.names(site):
        if not name.endswith((".pth", ".egg-link")) or name.startswith("distutils-precedence"):
            continue
        text = root.read(join(site, name), 65_536) or ""
        for line in text.splitlines()[:500]:
            entry = line.strip()
            if entry and not entry.startswith(("import ", "import\t", "#")):
                path = join(site, entry)
                if root.is_dir(path):
                    added.append(path)
            if name.endswith(".egg-link"):
                break
    return list(dict.fromkeys(added))
