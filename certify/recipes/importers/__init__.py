"""Turn published scripts and documents into recipes. Nothing that is read is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.errors import UsageError
from certify.recipes.importers.base import Imported
from certify.recipes.importers.launch import launches, training_launch
from certify.recipes.importers.text import find_root, inside, read_source

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Imported", "import_file", "import_shell", "import_yaml"]


def _shown(path: Path, root: Path | None) -> str:
    """The path as a recipe states it: inside the checkout where there is one."""
    if root is not None and path.resolve().is_relative_to(root.resolve()):
        return path.resolve().relative_to(root.resolve()).as_posix()
    return path.as_posix()


def import_shell(path: Path, root: Path | None = None) -> Imported:
    """Read a shell script. root: the upstream checkout, found above the script by default.

    A script that trains nothing, or that cannot be read, comes back refused with the reason.
    """
    from certify.recipes.importers import fsdp2, megatron
    from certify.recipes.importers.shell import read_script

    root = root or find_root(path)
    shown = _shown(path, root)
    imported = Imported(shown)

    def include(name: str) -> tuple[str, str] | None:
        found = inside(root, name) if root is not None else None
        return (name, read_source(found)) if found is not None else None

    try:
        imported.script = read_script(read_source(path), shown, include)
        launch = training_launch(imported.script)
        if launch is None:
            others = launches(imported.script)
            reason = next((one.refusal for one in others if one.refusal), None)
            if reason is None and others:
                reason = f"it runs {others[-1].name}, which is no training entry of upstream"
            imported.refused = reason or "it starts no training"
            return imported
        if launch.name == "train_fsdp2.py" or launch.meant == "train_fsdp2.py":
            fsdp2.import_launch(imported, launch, shown, root)
        else:
            megatron.import_launch(imported, launch, shown)
        if launch.meant:
            imported.refused = f"{launch.name} does not exist upstream; {launch.meant} does"
    except UsageError as error:
        if error.hint and "pip install" in error.hint:
            raise
        imported.refused = f"{error.what} ({error.where})"
    return imported


def import_yaml(path: Path, overrides: tuple[str, ...] = (), root: Path | None = None) -> Imported:
    """Read an FSDP2 YAML with command-line overrides (``parallel.ep_size=4``)."""
    from certify.recipes.importers import fsdp2

    root = root or find_root(path)
    imported = Imported(_shown(path, root))
    try:
        fsdp2.import_document(imported, read_source(path), overrides)
    except UsageError as error:
        if error.hint and "pip install" in error.hint:
            raise
        imported.refused = f"{error.what} ({error.where})"
    return imported


def import_file(path: Path, overrides: tuple[str, ...] = (), root: Path | None = None) -> Imported:
    """Read a script (.sh) or an FSDP2 configuration (.yaml). Raises UsageError for others."""
    if path.suffix == ".sh":
        return import_shell(path, root)
    if path.suffix in (".yaml", ".yml"):
        return import_yaml(path, overrides, root)
    raise UsageError(
        f"cannot import a {path.suffix or 'nameless'} file",
        where=str(path),
        expected="a shell script (.sh), an FSDP2 configuration (.yaml) or a support list (.md)",
    )
