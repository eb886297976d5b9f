"""Read the data files of this package from a checkout, a wheel or inside a zip archive."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Plain names and no pathlib: check-env reads tables of this package on hosts with known variables.
_ROOT = os.path.dirname(os.path.abspath(__file__))


def read_text(name: str) -> str:
    """The text of a data file, ``name`` relative to this folder (``recipes/ID.toml``).

    Raises FileNotFoundError when there is no such file.
    """
    try:
        with open(os.path.join(_ROOT, name), encoding="utf-8") as file:
            return file.read()
    except NotADirectoryError:
        # Inside a zip archive __file__ is no path of the file system: ask the package's loader.
        import pkgutil

        try:
            data = pkgutil.get_data("matrices", name)
        except OSError as error:
            raise FileNotFoundError(name) from error
        if data is None:
            raise FileNotFoundError(name) from None
        return data.decode("utf-8")


def read_toml(name: str) -> dict[str, Any]:
    """A TOML data file as a dict. Raises FileNotFoundError, or TOMLDecodeError for bad text."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    table: dict[str, Any] = tomllib.loads(read_text(name))
    return table


def read_tsv(name: str) -> list[dict[str, str]]:
    """A table with a header line, one dict a line; lines that start with ``#`` are comments."""
    lines = [line for line in read_text(name).splitlines() if line and not line.startswith("#")]
    header = lines[0].split("\t")
    return [dict(zip(header, line.split("\t"), strict=True)) for line in lines[1:]]


def names(folder: str, suffix: str = ".toml") -> list[str]:
    """Sorted names, without the suffix, of the data files in a folder (``models``)."""
    try:
        files = os.listdir(os.path.join(_ROOT, folder))
    except NotADirectoryError:
        from importlib.resources import files as resources

        files = [entry.name for entry in resources("matrices").joinpath(folder).iterdir()]
    return sorted(name.removesuffix(suffix) for name in files if name.endswith(suffix))
