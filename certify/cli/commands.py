"""The table of commands. Adding one is: one file in this folder and one line here.

A command module has a docstring (its help text, examples first), ``add_arguments(parser)``
and ``run(args) -> int`` (an exit code).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """module: where the command lives; summary: one line for ``certify --help``."""

    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "run": Command("certify.cli.run", "train a recipe and its reference, and judge it"),
    "judge": Command("certify.cli.judge", "judge the records of a campaign again"),
    "recipes": Command("certify.cli.recipes", "list or show the published recipes"),
    "report": Command("certify.cli.report", "write the page of a campaign"),
    "store": Command("certify.cli.store", "look after the database of results"),
}
