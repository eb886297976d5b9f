"""The command line: a table of commands, each in a file of its own, imported when it is called."""

from __future__ import annotations

import os
import sys

from certify import __version__
from certify.cli.commands import COMMANDS
from certify.errors import (
    EXIT_CODES,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    EXIT_USAGE,
    CertifyError,
    InfrastructureError,
    UsageError,
)
from certify.light import module as load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def _top_help() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        "usage: certify COMMAND [options]",
        "",
        "  certify run qwen3-235b --backend fsdp2      certify a recipe on this machine",
        "  certify check-env                           does this stack fit together?",
        "  certify COMMAND --help                      options and examples of one command",
        "",
        "commands:",
        *(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()),
        "",
        "exit codes:",
        *(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()),
    ]
    return "\n".join(lines)


def _fail(error: CertifyError, command: str, as_json: bool) -> int:
    if as_json:
        import json

        # One document on stdout, also on failure (ARCHITECTURE, "Command line").
        print(
            json.dumps(
                {"schema": f"certify.{command}/1", "error": error.as_json()}, ensure_ascii=False
            )
        )
    print(error, file=sys.stderr)
    return error.exit_code


def _unknown(name: str) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=3, cutoff=0.5)
    hint = f"did you mean: {', '.join(near)}?" if near else "certify --help lists the commands"
    return UsageError(f"unknown command {name!r}", where="certify", hint=hint)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (meanings in `certify.errors.EXIT_CODES`)."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        print(_top_help())
        return EXIT_PASS if words else EXIT_USAGE
    if name in ("--version", "-V"):
        print(f"certify {__version__}")
        return EXIT_PASS
    try:
        if name not in COMMANDS:
            raise _unknown(name)
        module = load(COMMANDS[name].module)
        from certify.cli.parser import Parser, formatter

        parser = Parser(
            prog=f"certify {name}",
            description=module.__doc__,
            # A stated width keeps argparse from loading shutil (and bz2, lzma) at every start.
            formatter_class=formatter,
            allow_abbrev=False,
        )
        module.add_arguments(parser)
        # A command may take positional words between options (``words_of`` says how).
        words_of = getattr(module, "words_of", None)
        if words_of is None:
            args = parser.parse_args(words[1:])
        else:
            args = parser.parse_intermixed_args(words_of(words[1:]))
        args.words = words  # as typed, for what a person is told to type again
        code: int = module.run(args)
        sys.stdout.flush()
        return code
    except CertifyError as error:
        return _fail(error, name, as_json)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our stdout went away (certify ... | head): nothing left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PASS
    except OSError as error:
        # A full disk, a closed descriptor, a folder without permission: not ours to repair.
        what = error.strerror or type(error).__name__
        return _fail(
            InfrastructureError(what, where=error.filename and str(error.filename)), name, as_json
        )
    except Exception as error:
        if os.environ.get("CERTIFY_DEBUG"):
            raise
        from certify.cli.defect import report_defect

        report_defect(error, name, as_json)
        return EXIT_INTERNAL
