"""docs/mcore_families.md: which published Mcore rows the mcore backend builds, measured here.

    python benchmarks/mcore_families.py --write docs/mcore_families.md

Each mapped row's model is scaled down with every feature kept, built by Megatron-Core on a CPU in
float32 and compared with the stock class of transformers (`runner.families.mcore`). Rows
that are alike at that scale share a trial.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from certify.campaign.request import load_scale
from certify.errors import CertifyError
from certify.recipes.family_table import Table, families
from runner.backends.mcore import families as mapped
from runner.backends.mcore.mappings import FAMILIES

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 2e-6  # of logits, relative to the largest: the promise of the backend in float32
HEAD = ("row", "model type", "mapping", "weights", "logits", "gradients", "why not")


@dataclass(frozen=True)
class Line:
    """One row of the support list. group: the mapping file, None where nothing is mapped."""

    row: str
    model_type: str
    trial: str | None
    group: str | None
    why: str


def table() -> Table:
    """Every row of the support list with the configuration that stands for it."""
    return families(load_scale("tiny"))


def lines(found: Table) -> list[Line]:
    """The Mcore rows, in published order."""
    return [
        _line(family, found) for family in found.rows if family.row.backend.casefold() == "mcore"
    ]


def _line(family: Any, found: Table) -> Line:
    name = family.model_type or "-"
    if family.published_type:
        name = f"{family.published_type} as {name}"
    if family.trial is None:
        return Line(family.row.id, name, None, None, family.why or "")
    try:
        group = mapped.family(found.configs[family.trial]).group
    except CertifyError as error:
        return Line(family.row.id, name, family.trial, None, error.what)
    return Line(family.row.id, name, family.trial, group, "")


def measure(configs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Trial -> outcome, by one process of the runner."""
    with tempfile.TemporaryDirectory(prefix="certify-mcore-") as folder:
        file = Path(folder) / "configs.json"
        file.write_text(json.dumps({"configs": configs}), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "runner.families.mcore", str(file)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    outcomes: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def cells(line: Line, outcome: dict[str, Any] | None) -> tuple[str, ...]:
    """One row of the page."""
    if line.group is None or outcome is None:
        return (line.row, line.model_type, "-", "-", "-", "-", line.why)
    weights = "bitwise" if outcome["bitwise"] else "NOT bitwise"
    if not outcome["runs"]:
        why = "weights only: its layers need the kernels of mamba-ssm"
        return (line.row, line.model_type, line.group, weights, "-", "-", why)
    size = (f"{outcome['logits']:.1e}", f"{outcome['gradients']:.1e}")
    return (line.row, line.model_type, line.group, weights, *size, line.why)


def render(rows: list[tuple[str, ...]]) -> str:
    """The page."""
    built = sum(row[4] != "-" for row in rows)
    only = sum(row[3] != "-" and row[4] == "-" for row in rows)
    counts = Counter(row[2] for row in rows if row[2] != "-")
    groups = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    body = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    others = ", ".join(sorted(set(FAMILIES) - {row[1].split()[-1] for row in rows}))
    versions = [version(name).partition("+")[0] for name in ("megatron-core", "torch")]
    return f"""# Model families of the mcore backend

Written by `python benchmarks/mcore_families.py --write docs/mcore_families.md`; do not edit.

Of the {len(rows)} Mcore rows of the support list {built} are built and compared, {only} have mapped
weights only, {len(rows) - built - only} are not mapped ({groups}).

Each is the row's model at scale tiny, every feature kept, in float32 on a CPU, with weights in
which no tensor is all ones or zeros. *weights*: published tensors to Megatron's and back, by bits.
*logits*: largest difference from the stock class of transformers, relative to the largest logit
(limit {LIMIT:.0e}). *gradients*: of the mean cross-entropy, the tensor that differs most
(Frobenius norm, relative). Measured with megatron-core {versions[0]}, torch {versions[1]},
transformers {version("transformers")}. Nothing here says how a published row trains at its own
size. Mapped besides, without an Mcore row: {others}.

| {" | ".join(HEAD)} |
| {" | ".join("---" for _ in HEAD)} |
{body}

*X as Y*: transformers has no class X; `python -m runner.stand_ins` remaps its weights to Y.
"""


def main() -> int:
    """Measure every trial and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", required=True, metavar="PAGE")
    arguments = parser.parse_args()
    found = table()
    wanted = lines(found)
    names = {line.trial for line in wanted if line.trial and line.group}
    outcomes = measure({name: found.configs[name] for name in sorted(names)})
    rows = [cells(line, outcomes.get(line.trial or "")) for line in wanted]
    Path(arguments.write).write_text(render(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
