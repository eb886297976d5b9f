"""Builds ``certify.pyz``: one file that runs on a host where nothing may be installed.

    python -m certify.pyz certify.pyz
    python3 certify.pyz check-env

It holds the base install (check-env, resolve, recipes, judge, verify): the packages certify and
matrices, the compiled matrix, and tomli where this Python has it (needed by a host with 3.10).
"""

from __future__ import annotations

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("certify", "matrices")
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = "import sys\nfrom certify.cli import main\nsys.exit(main())\n"
# The oldest time that a zip archive can state: the same sources give the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def build(target: Path) -> int:
    """Write the archive; returns how many files it holds."""
    files = dict(_sources())
    from matrices.load import COMPILED, FOLDER, compile_folder, packed

    files[f"matrices/{COMPILED}"] = packed(compile_folder(FOLDER))
    files["__main__.py"] = _MAIN.encode()
    with target.open("wb") as out:
        out.write(_SHEBANG)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(files):
                archive.writestr(zipfile.ZipInfo(name, _DATE), files[name], zipfile.ZIP_DEFLATED)
    target.chmod(0o755)
    return len(files)


def _sources() -> list[tuple[str, bytes]]:
    """Name in the archive -> content, of all packages."""
    found = []
    for package in (*_PACKAGES, "tomli"):
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            continue
        top = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(top.rglob("*")):
            inside = path.relative_to(top)
            # A compiled tomli is for one Python only; its sources run everywhere.
            if path.is_file() and "__pycache__" not in inside.parts and path.suffix != ".so":
                found.append((f"{package}/{inside.as_posix()}", path.read_bytes()))
    return found


def main(words: list[str]) -> int:
    """``python -m certify.pyz [TARGET]``."""
    if len(words) > 1 or words[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    target = Path(words[0] if words else "certify.pyz")
    count = build(target)
    print(f"{target}: {count} files, {target.stat().st_size >> 10} KB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
