"""Broken and hostile input: importers return or raise UsageError, never anything else."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from certify.errors import UsageError
from certify.recipes.importers import import_file
from certify.recipes.importers.support_list import read_list
from certify.recipes.lint import lint_imported
from tests.recipes import scripts
from tests.recipes.importers.test_support_list import ROWS, ZH

TOKENS = [
    "$((", "))", "${", "}", '"', "'", "`", "$(", ")", "(", "[[", "]]", "|", "&&", ";", "\\\n",
    "\\ \n", "<<EOF\n", "for i in ", "do ", "done\n", "if [ ", "then ", "fi\n", "case x in ",
    "function f() {", "eval ", "A=$A$A", "\x00", "\udcff", "source ", "--x", "99999999999999999999",
    "1e999", "nan", "&a ", "*a ", "!!python/name:os.system ", "<td rowspan=99999>", "<table>",
    "</tr>", ": ", "- ", "\t", "\r\n",
]  # fmt: skip


def _mutated(rng: random.Random, text: str) -> bytes:
    for _ in range(rng.randint(1, 25)):
        at = rng.randrange(len(text) + 1)
        if rng.random() < 0.6:
            text = text[:at] + rng.choice(TOKENS) * rng.choice((1, 1, 1, 40)) + text[at:]
        else:
            text = text[:at] + text[at + rng.randint(1, 120) :]
    return text.encode("utf-8", errors="surrogateescape")


def _fuzz(checkout: Path, rng: random.Random, rounds: int) -> None:
    sources = {
        "examples/mcore/small/x.sh": scripts.MEGATRON + scripts.MOE_ARGS,
        "examples/fsdp2/small/x.sh": scripts.FSDP2,
        "examples/fsdp2/small/x.yaml": scripts.FSDP2_YAML,
    }
    listed = ZH + ROWS.format(k="k", c="c", l="[", r="]")
    for _ in range(rounds):
        path, text = rng.choice(list(sources.items()))
        (checkout / path).write_bytes(_mutated(rng, text))
        lint_imported(import_file(checkout / path, root=checkout))
        with contextlib.suppress(UsageError):
            read_list(_mutated(rng, listed).decode("utf-8", errors="replace"), "x.md")


def test_mutated_files_never_raise(checkout: Path) -> None:
    _fuzz(checkout, random.Random(20261130), 250)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(20))
def test_mutated_files_never_raise_at_length(checkout: Path, seed: int) -> None:
    _fuzz(checkout, random.Random(seed), 3000)
