"""Which files ``data.dataset`` means: one described in place, names of dataset_info.json, a path.

As upstream reads it (MindSpeed-LLM mindspeed_llm/fsdp2/data/parser.py): names are separated by
commas with or without blanks, and the file of an entry lies beside dataset_info.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.importers.text import read_source

if TYPE_CHECKING:
    from certify.recipes.configuration.read import Configuration

INFO = "dataset_info.json"
# Where an entry can take its data from, in upstream's order; only the first needs no network.
_SOURCES = ("file_name", "script_url", "cloud_file_name", "hf_hub_url", "ms_hub_url", "om_hub_url")


@dataclass(frozen=True)
class Datasets:
    """paths: files or folders in order; entries: what describes each (formatting, columns);
    max_samples: at most so many documents of each, or None."""

    paths: tuple[str, ...] = ()
    entries: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    max_samples: int | None = None


def datasets_of(found: Configuration) -> Datasets:
    """The local files of a configuration's dataset, empty where it names none.

    Raises UsageError for a name that is not in dataset_info.json, an entry without a local file,
    and a file that is not there.
    """
    given, where = found.value("data.dataset"), found.place("data.dataset")
    limit = found.value("data.max_samples")
    if not given:
        return Datasets(max_samples=limit)
    if isinstance(given, dict):
        return Datasets((_file(given, Path(), where),), (given,), limit)
    if Path(given).exists():
        return Datasets((str(Path(given).absolute()),), ({"file_name": given},), limit)
    folder = Path(found.value("data.dataset_dir"))
    names = [name.strip() for name in given.split(",") if name.strip()]
    table = _info(folder, names, where)
    for name in names:
        if name not in table:
            near = get_close_matches(name, table, n=3)
            raise UsageError(
                f"no dataset named {name!r}",
                where=where,
                expected=f"{' or '.join(map(repr, near))}?"
                if near
                else f"a name of {folder / INFO}",
            )
    entries = tuple(table[name] for name in names)
    paths = tuple(_file(table[name], folder, f"{folder / INFO}: {name}") for name in names)
    return Datasets(paths, entries, limit)


def _info(folder: Path, names: list[str], where: str) -> dict[str, Any]:
    path = folder / INFO
    if not path.is_file():
        raise UsageError(
            f"no {INFO} to find {', '.join(names)} in",
            where=where,
            expected=f"{path}, or a path in data.dataset",
            hint="data.dataset_dir=FOLDER on the command line, or --data PATH",
        )
    try:
        table = json.loads(read_source(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", where=str(path)) from None
    if not isinstance(table, dict) or not all(isinstance(v, dict) for v in table.values()):
        raise UsageError(
            "no table of datasets", where=str(path), expected="an object of objects, by name"
        )
    return table


def _file(entry: dict[str, Any], folder: Path, where: str) -> str:
    kind = next((key for key in _SOURCES if key in entry), None)
    if kind is None:
        raise UsageError("no file_name", where=where, expected=f"one of {', '.join(_SOURCES)}")
    name = entry[kind]
    if kind != "file_name":
        raise UsageError(
            f"the dataset {name!r} would have to be downloaded ({kind})",
            where=where,
            expected="file_name of a local file: certify uses no network",
        )
    if not isinstance(name, str) or not (folder / name).exists():
        raise UsageError(
            f"no such data file: {name}",
            where=where,
            expected=f"a file {'beside ' + INFO if folder != Path() else 'or folder'}",
            hint="certify run CONFIG.yaml --data PATH",
        )
    return str((folder / name).absolute())
