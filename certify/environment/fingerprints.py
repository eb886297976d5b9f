"""Which release a copied source tree is, by the git blob ids of a few of its files.

The table is matrices/fingerprints.tsv, made by `matrices.make_fingerprints`; it is read only when
a tree without .git was found.
"""

from __future__ import annotations

from certify.environment.files import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.files import Root

TABLE = "fingerprints.tsv"


def _rows() -> list[tuple[str, str, str, tuple[str, ...]]]:
    # Through the loader, so that it works from a zipapp too; both imports are needed only here.
    from importlib import import_module
    from pathlib import Path

    package = import_module("matrices")
    spec = package.__spec__
    folder = Path(package.__file__ or "").parent
    try:
        raw = spec.loader.get_data(str(folder / TABLE))  # type: ignore[union-attr]
    except (OSError, AttributeError):
        return []
    rows = []
    for line in raw.decode("utf-8").splitlines()[1:]:
        component, path, blob, releases = line.split("\t")
        rows.append((component, path, blob, tuple(releases.split("|"))))
    return rows


def blob_id(content: bytes) -> str:
    """The id that git gives to a file with this content, as far as the table stores it."""
    import hashlib

    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()[:16]


def release_of(root: Root, folder: str, component: str) -> str | None:
    """The release whose files these are: one name, or several joined by ``|`` when the chosen
    files are equal in them; None when no release fits all files that are there."""
    candidates: set[str] | None = None
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, path, blob, releases in _rows():
        if name == component:
            known.setdefault(path, {})[blob] = releases
    for path, blobs in known.items():
        content = root.read_bytes(join(folder, path))
        if content is None:
            continue
        fitting = set(blobs.get(blob_id(content), ()))
        candidates = fitting if candidates is None else candidates & fitting
    if not candidates:
        return None
    return "|".join(sorted(candidates))
