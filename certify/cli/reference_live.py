"""The actions of ``certify reference`` that concern LLaMA-Factory: setup, train, compare."""

from __future__ import annotations

import dataclasses
import sys
import typing
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, UsageError
from certify.home import home_folder
from certify.reference.environments import TOOLS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from certify.reference.llamafactory import Tuning

EXIT = {"PASS": EXIT_PASS, "FAIL": EXIT_FAIL, "INCONCLUSIVE": EXIT_CANNOT_JUDGE}
_COLUMN = "columns."
Answer = tuple[int, dict[str, Any], str]  # exit code, document, text


def add_actions(actions: Any) -> list[argparse.ArgumentParser]:
    """Options of the actions."""
    setup = actions.add_parser("setup", help="make a reference's environment", allow_abbrev=False)
    setup.add_argument("tool", choices=sorted(TOOLS))
    setup.add_argument("--python", metavar="PYTHON", help="interpreter to make it with")
    setup.add_argument(
        "--pip", action="append", default=[], metavar="OPTION", help="of pip: --pip=--index-url=URL"
    )
    train = actions.add_parser("train", help="train with a reference's own CLI", allow_abbrev=False)
    train.add_argument("tool", choices=sorted(TOOLS))
    train.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="its settings"
    )
    train.add_argument("--model", required=True, metavar="DIR", help="weights and tokenizer")
    train.add_argument("--data", required=True, metavar="FILE", help="Alpaca or ShareGPT JSON")
    train.add_argument("--out", required=True, metavar="DIR", help="an empty or new folder")
    train.add_argument("--python", metavar="PYTHON", help="of an environment of your own")
    compare = actions.add_parser("compare", help="a run against a trainer", allow_abbrev=False)
    compare.add_argument("run", metavar="RUN", help="run folder with the records of a run of ours")
    compare.add_argument("state", metavar="STATE", help="trainer_state.json, or its folder")
    return [setup, train, compare]


def setup(args: argparse.Namespace) -> Answer:
    """Make the environment, or find it made."""
    from certify.reference import environments

    tool = TOOLS[args.tool]
    folder = environments.setup(
        tool,
        home_folder(args.home),
        args.python,
        args.pip,
        lambda text: print(text, file=sys.stderr),
    )
    document = {"tool": tool.name, "version": tool.version, "folder": str(folder)}
    return EXIT_PASS, document, f"{tool.name} {tool.version} in {folder}"


def train(args: argparse.Namespace) -> Answer:
    """Train and say where its trajectory lies."""
    from certify.reference import environments, llamafactory

    tuning = tuning_of(args)
    home = home_folder(args.home)
    python = Path(args.python) if args.python else environments.python_of(TOOLS[args.tool], home)
    out = Path(args.out).absolute()
    found = llamafactory.train(tuning, python, out)
    state = out / llamafactory.OUTPUT / llamafactory.STATE
    first, last = found.steps[0], found.steps[-1]
    document = {
        "tool": args.tool,
        "steps": len(found.steps),
        "first_loss": first.loss,
        "last_loss": last.loss,
        "state": str(state),
    }
    text = f"{len(found.steps)} steps, loss {first.loss:.6g} to {last.loss:.6g}, in {state}"
    return EXIT_PASS, document, text


def tuning_of(args: argparse.Namespace) -> Tuning:
    """The fine-tuning that the words describe. Raises UsageError with near matches."""
    from certify.reference.llamafactory import Tuning

    hints = typing.get_type_hints(Tuning)
    known = [f.name for f in dataclasses.fields(Tuning) if f.name not in ("model", "data")]
    values: dict[str, Any] = {}
    columns: dict[str, str] = {}
    for word in args.set:
        key, equals, text = word.partition("=")
        if equals and key.startswith(_COLUMN) and key != _COLUMN:
            columns[key.removeprefix(_COLUMN)] = text
        elif equals and key in known and key != "columns":
            values[key] = _value(key, text, hints[key])
        else:
            near = get_close_matches(key, known, n=1)
            raise UsageError(
                f"unknown key {key!r}" if equals else f"found {word!r}",
                where="--set",
                expected=f"KEY=VALUE, KEY one of {', '.join(known)}; columns.NAME=KEY",
                hint=f"did you mean {near[0]}?" if near else None,
            )
    return Tuning(Path(args.model), Path(args.data), columns=columns, **values)


def _value(key: str, text: str, hint: type) -> Any:
    words = {"true": True, "false": False}
    readers: dict[type, Callable[[str], Any]] = {bool: words.__getitem__, int: int, float: float}
    expected = {bool: "true or false", int: "a whole number", float: "a number"}
    try:
        value = readers[hint](text) if hint in readers else text
    except (KeyError, ValueError):
        raise UsageError(f"{key} is {text!r}", where="--set", expected=expected[hint]) from None
    return value


def compare(args: argparse.Namespace) -> Answer:
    """Compare per step."""
    from certify.criteria.outcome import Check, check_json
    from certify.records import read_run
    from certify.reference import live, llamafactory

    path = Path(args.state)
    files = tuple(read_run(Path(args.run)))
    theirs = llamafactory.read_state(path / llamafactory.STATE if path.is_dir() else path)
    found = live.compare(files, theirs)
    checks: Sequence[Check] = found.checks
    document = {
        "verdict": found.verdict,
        "reason": live.reason(found),
        "checks": [check_json(check) for check in checks],
    }
    lines = [f"  {c.outcome:<9} {c.name:<22} {c.detail}" for c in checks]
    lines.append(f"verdict: {found.verdict}: {live.reason(found)}")
    return EXIT[found.verdict], document, "\n".join(lines)
