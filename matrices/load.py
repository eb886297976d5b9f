"""The matrix: what is published about versions that go together. Standard library only.

``load()`` answers the `Matrix`. The TSV files are the truth; a compiled form beside them
(``compiled.bin``, built with the wheel or on first use, never committed) is taken when its
checksums say that it is whole and was made from these very files. ``load(folder)`` reads another
state.
"""

from __future__ import annotations

import marshal
import os
from collections import namedtuple
from zlib import crc32

# `typing` costs its import at every start of check-env; type checkers know this name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, NamedTuple

    FOLDER: Path

# check-env reads the matrix at every start, and pathlib alone would cost it a twentieth of its
# time: the way of every day uses plain names, and FOLDER is made when somebody asks for it.
_HERE = os.path.dirname(os.path.abspath(__file__))
COMPILED = "compiled.bin"
# The version of marshal's format in which equal objects give equal bytes (later ones write what is
# shared or interned in another way).
_MARSHAL = 2
# fmt: off
COLUMNS = (
    "id", "kind", "state", "components", "where", "source", "path", "ref", "table",
    "date", "dated", "since", "conflict", "note",
)
KINDS = (
    "reference", "compatible", "incompatible", "requirement", "pin", "tag-map", "availability",
    "maintenance",
)
# fmt: on
STATES = ("current", "preview", "upcoming", "superseded", "contradicted")
# States that may decide; the others stay readable as history.
DECIDING = ("current", "preview")
_TABLES = ("components", "conflicts", "products", "chips", "relations")


class MatrixError(ValueError):
    """A file of the matrix that cannot be read; the message names file and line."""


if TYPE_CHECKING:

    class _Row(NamedTuple):
        id: str
        kind: str
        state: str
        components: dict[str, str]
        where: dict[str, str]
        source: str
        path: str
        ref: str
        table: str
        date: str
        dated: str
        since: str
        conflict: str
        note: str
else:
    _Row = namedtuple("_Row", COLUMNS)


class Claim(_Row):
    """One published statement. A tuple and no dataclass: 900 are made at every start.

    components: key -> specification (`certify.versions.specs`); where: conditions (product, arch,
    at); source, path, ref, table: repository or site, document, commit or ``web``, table;
    date, dated: last ``seen`` in history, ``published`` or only ``read`` on that day;
    since: first seen; conflict: id in conflicts.tsv.
    """

    __slots__ = ()

    @property
    def scope(self) -> str:
        """The file that the claim stands in."""
        return self.id.rpartition("-")[0]

    @property
    def decides(self) -> bool:
        """Whether the claim may decide; superseded and contradicted ones never do."""
        return self.state in DECIDING

    def citation(self) -> str:
        """Where it is published: ``Ascend/pytorch COMPATIBILITY.md@b48e648, table (2026-08-20)``"""
        place = f"{self.source} {self.path}".strip()
        ref = "" if self.ref in ("", "-", "web") else f"@{self.ref}"
        table = f", {self.table}" if self.table else ""
        read = "read " if self.dated == "read" else ""
        return f"{place}{ref}{table} ({read}{self.date})"


class Matrix:
    """All claims and the small tables beside them, indexed by component.

    `history` adds the superseded claims, maintenance rows and image lists, read only when asked.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self.digest: str = state["digest"]
        self.tables: dict[str, list[dict[str, str]]] = state["tables"]
        # What a reader of the matrix derives from it once (parsed specifications, indexes).
        self.prepared: object = None
        # A question names two or three of sixty components, so claims are made when asked for.
        self._rows: list[tuple[Any, ...]] = state["claims"]
        self._made: dict[int, Claim] = {}
        self._index: dict[str, list[int]] = state["index"]
        self._cold: memoryview | bytes = state["cold"]
        self._claims: list[Claim] | None = None
        self._by_id: dict[str, Claim] | None = None
        self._history: list[Claim] | None = None
        self.components: dict[str, dict[str, str]] = {
            row["key"]: row for row in self.tables["components"]
        }

    def _at(self, place: int) -> Claim:
        found = self._made.get(place)
        if found is None:
            found = self._made[place] = Claim._make(self._rows[place])
        return found

    @property
    def claims(self) -> list[Claim]:
        """The claims that may decide, availability and tag maps."""
        if self._claims is None:
            self._claims = [self._at(place) for place in range(len(self._rows))]
        return self._claims

    @property
    def by_id(self) -> dict[str, Claim]:
        """The same claims by their ids."""
        if self._by_id is None:
            self._by_id = {claim.id: claim for claim in self.claims}
        return self._by_id

    @property
    def history(self) -> list[Claim]:
        """Every claim, superseded ones included, in file order."""
        if self._history is None:
            cold = list(map(Claim._make, marshal.loads(self._cold)))
            self._history = sorted(self.claims + cold, key=lambda claim: claim.id)
        return self._history

    def about(self, *keys: str) -> list[Claim]:
        """Deciding claims that name all these components."""
        first, *rest = keys
        found = [self._at(place) for place in self._index.get(first, ())]
        for key in rest:
            found = [claim for claim in found if key in claim.components]
        return found

    def claim(self, name: str) -> Claim | None:
        """The claim with this id, from the history too."""
        found = self.by_id.get(name)
        if found is None:
            found = next((claim for claim in self.history if claim.id == name), None)
        return found

    def family(self, key: str) -> str:
        """The version family of a component; ``name`` for one the matrix does not know."""
        row = self.components.get(key)
        return row["family"] if row else "name"


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of one TSV file. Raises MatrixError with file and line."""
    return rows_of(path.read_text(encoding="utf-8"), path.name)


def rows_of(text: str, name: str) -> list[dict[str, str]]:
    """The rows of a TSV text; empty lines and lines that start with ``#`` are left out."""
    lines = text.splitlines()
    header = lines[0].split("\t") if lines else []
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != len(header):
            raise MatrixError(
                f"{name}:{number}: {len(cells)} columns where the header has {len(header)}"
            )
        rows.append(dict(zip(header, cells, strict=True)))
    return rows


def read_table(name: str) -> list[dict[str, str]]:
    """A table that stands beside the claims: ``variables``, ``error_codes``, ``rules``.

    Works in a checkout, a wheel and a zip archive. Raises MatrixError when there is none.
    """
    path = _as_path(str(globals().get("FOLDER", _HERE))) / f"{name}.tsv"
    try:
        text = path.read_text(encoding="utf-8")
    except NotADirectoryError:
        text = _from_archive(path).decode("utf-8")
    except FileNotFoundError as error:
        raise MatrixError(f"{path.name}: no such table") from error
    return rows_of(text, path.name)


def pairs_of(cell: str, place: str) -> dict[str, str]:
    """``cann=9.1.0 torch=2.7.1`` as a mapping. Raises MatrixError naming the place."""
    answer = {}
    for word in cell.split():
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise MatrixError(f"{place}: {word!r} is no key=value pair")
        answer[key] = value
    return answer


def claim_of(row: dict[str, str], place: str) -> Claim:
    """A claim from the cells of its row. Raises MatrixError for a missing column."""
    try:
        cells: list[Any] = [row[column] for column in COLUMNS]
    except KeyError as error:
        raise MatrixError(f"{place}: no column {error}") from error
    cells[3] = pairs_of(cells[3], place)
    cells[4] = pairs_of(cells[4], place)
    return Claim(*cells)


def _files(folder: str) -> list[str]:
    claims = os.path.join(folder, "claims")
    names = sorted(name for name in os.listdir(claims) if name.endswith(".tsv"))
    tables = [os.path.join(folder, f"{name}.tsv") for name in _TABLES]
    return [os.path.join(claims, name) for name in names] + [p for p in tables if os.path.isfile(p)]


def checksum(folder: Path | str) -> str:
    """Changes whenever a file of the matrix changes; fast, not cryptographic."""
    total = 0
    for path in _files(str(folder)):
        with open(path, "rb") as file:
            total = crc32(file.read(), crc32(os.path.basename(path).encode(), total))
    return f"{total:08x}"


def compile_folder(folder: Path) -> dict[str, Any]:
    """Reads the TSV files into the form that is stored as ``compiled.bin``."""
    hot: list[Claim] = []
    cold: list[Claim] = []
    for path in sorted((folder / "claims").glob("*.tsv")):
        for row in read_rows(path):
            claim = claim_of(row, f"{path.name} {row.get('id', '?')}")
            # Long lists that no pair query needs stay packed until somebody asks for them.
            listed = claim.kind == "maintenance" or claim.scope == "cann_images"
            (hot if claim.decides and not listed else cold).append(claim)
    tables = {
        name: read_rows(folder / f"{name}.tsv") if (folder / f"{name}.tsv").is_file() else []
        for name in _TABLES
    }
    index: dict[str, list[int]] = {}
    for place, claim in enumerate(hot):
        for key in claim.components:
            index.setdefault(key, []).append(place)
    return {
        "digest": checksum(folder),
        "tables": tables,
        "claims": [tuple(claim) for claim in hot],
        # component -> places of the claims that name it; hot claims are all deciding ones
        "index": index,
        "cold": marshal.dumps([tuple(claim) for claim in cold], _MARSHAL),
    }


def packed(state: dict[str, Any]) -> bytes:
    """The compiled form as bytes: equal for equal tables, whichever Python writes it.

    A checksum and the length of the hot part, 8 hexadecimal digits each; the hot part; the cold
    part, which is not even copied until somebody asks for it.
    """
    state = dict(state)
    cold = state.pop("cold")
    hot = marshal.dumps(state, _MARSHAL)
    body: bytes = b"%08x" % len(hot) + hot + cold
    return b"%08x" % crc32(body) + body


def unpacked(data: bytes) -> dict[str, Any]:
    """What `packed` wrote. Raises ValueError for anything that is not whole."""
    # marshal trusts its input, so nothing reaches it that differs from what was written.
    view = memoryview(data)
    if len(data) < 16 or data[:8] != b"%08x" % crc32(view[8:]):
        raise ValueError("not a compiled matrix")
    end = 16 + int(data[8:16], 16)
    state: dict[str, Any] = marshal.loads(view[16:end])
    return {**state, "cold": view[end:]}


def write_compiled(folder: Path, target: Path) -> None:
    """Writes the compiled form whole or not at all."""
    unfinished = target.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(packed(compile_folder(folder)))
    unfinished.replace(target)


def load(folder: Path | None = None) -> Matrix:
    """The matrix of this installation, or of another folder laid out like it.

    Raises MatrixError when a file cannot be read.
    """
    own = folder is None
    if folder is None:
        place = str(globals().get("FOLDER", _HERE))
        try:
            with open(os.path.join(place, COMPILED), "rb") as file:
                state = unpacked(file.read())
            if state["digest"] == checksum(place):
                return Matrix(state)
        except (OSError, ValueError, KeyError, TypeError, EOFError):
            pass  # there is none, or not a whole one: the TSV files say the same
        folder = _as_path(place)
    if not folder.is_dir():
        return _load_from_archive(folder)
    if not (folder / "claims").is_dir():
        raise MatrixError(f"{folder}: no folder claims/, so this is no matrix")
    if own and os.access(folder, os.W_OK):
        try:  # noqa: SIM105 (contextlib costs its import)
            write_compiled(folder, folder / COMPILED)
        except OSError:
            pass  # a full disk or a folder that only looks writable: it is compiled every time
    return Matrix(compile_folder(folder))


def _from_archive(path: Path) -> bytes:
    loader = globals().get("__loader__")
    try:
        data: bytes = loader.get_data(str(path))  # type: ignore[union-attr]
    except (OSError, AttributeError) as error:
        raise MatrixError(f"{path}: not in this archive") from error
    return data


def _load_from_archive(folder: Path) -> Matrix:
    """The matrix inside a zipapp, which always carries the compiled form."""
    return Matrix(unpacked(_from_archive(folder / COMPILED)))


def _as_path(place: str) -> Path:
    from pathlib import Path

    return Path(place)


def __getattr__(name: str) -> Any:
    """``FOLDER``: where the matrix of this installation lies."""
    if name == "FOLDER":
        return _as_path(_HERE)
    raise AttributeError(name)
