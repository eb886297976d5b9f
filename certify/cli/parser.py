"""The parser of a command's options: argparse, with our own form of a usage error."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from certify.errors import UsageError


def _load_untranslated() -> None:
    """Load argparse with messages that stay as they are.

    argparse takes its messages through gettext, which looks for catalogs on disk and compiles the
    grammar of plural forms: a twentieth of the time of check-env, for messages that we replace.
    Whoever imports gettext later gets the real one.
    """
    if "argparse" in sys.modules or "gettext" in sys.modules:
        return
    plain = ModuleType("gettext")
    plain.__dict__["gettext"] = lambda message: message
    plain.__dict__["ngettext"] = lambda one, many, count: one if count == 1 else many
    sys.modules["gettext"] = plain
    try:
        import argparse  # noqa: F401
    finally:
        del sys.modules["gettext"]


_load_untranslated()
import argparse  # noqa: E402


class Parser(argparse.ArgumentParser):
    """Raises our own error, so that a usage error has the same form as every other one."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message, where=self.prog, hint=f"{self.prog} --help")


def formatter(prog: str) -> argparse.HelpFormatter:
    """Help as wide as the terminal says, 100 columns otherwise."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) - 2 if columns.isdigit() and int(columns) > 40 else 98
    return argparse.RawDescriptionHelpFormatter(prog, width=width)
