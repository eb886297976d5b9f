"""The table of commands. Adding one is: one file in this folder and one line here.

A command module has a docstring (its help text, examples first), ``add_arguments(parser)``
and ``run(args) -> int`` (an exit code).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from certify.light import dataclass


@dataclass(frozen=True)
class Command:
    """module: where the command lives; summary: one line for ``certify --help``."""

    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "check-env": Command("certify.cli.check_env", "does this stack fit together?"),
    "collector": Command(
        "certify.cli.collector", "print a script that collects facts for a report"
    ),
    "run": Command("certify.cli.run", "train a recipe and its reference, and judge it"),
    "judge": Command("certify.cli.judge", "judge the records of a campaign again"),
    "compare": Command("certify.cli.compare", "two loss files, and what they can carry"),
    "verify": Command("certify.cli.verify", "check a bundle of evidence"),
    "selftest": Command("certify.cli.selftest", "seed known faults: which gate sees each?"),
    "recipes": Command("certify.cli.recipes", "list or show the published recipes"),
    "plan": Command("certify.cli.plan", "does a recipe fit, and what does a step cost?"),
    "data": Command("certify.cli.data", "make Megatron's .bin and .idx from text"),
    "weights": Command("certify.cli.weights", "check the files of a Hugging Face checkpoint"),
    "reference": Command(
        "certify.cli.reference", "recorded trajectories of references, trained again and compared"
    ),
    "report": Command("certify.cli.report", "write the page of a campaign"),
    "store": Command("certify.cli.store", "look after the database of results"),
    "resolve": Command("certify.cli.resolve", "the smallest change, or the cost of an upgrade"),
    "matrix": Command("certify.cli.matrix", "list, check, import and compare published claims"),
    "lock": Command("certify.cli.lock", "write down the full stack, or refuse drift from it"),
    "explain": Command("certify.cli.explain", "a rule, a variable, an error code, a claim"),
}
