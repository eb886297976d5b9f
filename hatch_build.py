"""Builds the compiled form of the matrix into the wheel.

The form is never committed; the checksum inside ties it to the TSV files that it was made from.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileMatrix(BuildHookInterface):  # type: ignore[type-arg]
    """Writes ``matrices/compiled.bin`` before the files of a wheel are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the claims and adds the result, which git ignores, to the wheel."""
        if self.target_name != "wheel":
            return
        folder = Path(self.root, "matrices")
        spec = importlib.util.spec_from_file_location("matrices_load", folder / "load.py")
        if spec is None or spec.loader is None:
            raise FileNotFoundError(folder / "load.py")
        loader = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loader)
        loader.write_compiled(folder, folder / loader.COMPILED)
        build_data["artifacts"].append(f"matrices/{loader.COMPILED}")
