"""examples:
  certify collector > collect.sh; sh collect.sh > report.txt
  certify collector | ssh node07 sh > node07.txt
  certify collector | docker exec -i NAME sh >> report.txt

Prints one POSIX sh script that collects what check-env --report needs, where certify is not
installed. It reads only, needs neither Python nor root, and prints no secrets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from certify.errors import EXIT_PASS

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``certify collector`` has no options."""


def run(args: argparse.Namespace) -> int:
    """Write the script to stdout."""
    sys.stdout.write(script())
    return EXIT_PASS


def script() -> str:
    """The text of the script, from a checkout, a wheel or a zipapp."""
    import pkgutil

    data = pkgutil.get_data("certify.environment", "collector.sh")
    if data is None:
        raise FileNotFoundError("certify/environment/collector.sh")
    return data.decode("utf-8")
