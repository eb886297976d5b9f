"""The curves of a campaign, step by step, for figures and for the CSV beside them. Pure."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from certify.records import RecordFile, Step
    from reports.source import Source

# Phase -> prefix of its columns in the CSV.
SIDES = {
    "candidate": "candidate",
    "reference": "reference",
    "reference-again": "reference_again",
    "candidate-again": "candidate_again",
    "resume": "resumed",
}


@dataclass(frozen=True)
class Series:
    """Values over steps; a step without a value is left out. steps count from 1."""

    steps: tuple[int, ...]
    values: tuple[float, ...]

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def zero(self) -> bool:
        """Whether every value is exactly zero."""
        return bool(self.values) and not any(self.values)

    @property
    def largest(self) -> float:
        """Largest absolute value, 0 for an empty series."""
        return max((abs(v) for v in self.values if math.isfinite(v)), default=0.0)


@dataclass(frozen=True)
class Curves:
    """steps: phase -> step -> record, of the lowest rank; controls: name -> step -> record."""

    steps: Mapping[str, Mapping[int, Step]]
    controls: Mapping[str, Mapping[int, Step]]

    def series(self, phase: str, field: str) -> Series:
        """One field of `records.Step` of one phase; values that are not finite are left out."""
        return _series({n: getattr(s, field) for n, s in self.steps.get(phase, {}).items()})

    def difference(self, phase: str, base: str, field: str) -> Series:
        """(phase - base) / base of a field, over the steps that both recorded."""
        return relative(self.steps.get(phase, {}), self.steps.get(base, {}), field)

    def control(self, name: str, base: str, field: str) -> Series:
        """As `difference`, of a negative control."""
        return relative(self.controls.get(name, {}), self.steps.get(base, {}), field)


def _series(values: Mapping[int, float]) -> Series:
    kept = {step: value for step, value in sorted(values.items()) if math.isfinite(value)}
    return Series(tuple(kept), tuple(kept.values()))


def relative(steps: Mapping[int, Step], base: Mapping[int, Step], field: str) -> Series:
    """(a - b) / b over the steps in both; left out where b is 0 or not finite."""
    found = {}
    for step in set(steps) & set(base):
        below = getattr(base[step], field)
        if math.isfinite(below) and below != 0:
            found[step] = (getattr(steps[step], field) - below) / below
    return _series(found)


def _steps(files: Sequence[RecordFile]) -> Mapping[int, Step]:
    return files[0].steps() if files else {}


def curves_of(source: Source) -> Curves:
    """The curves of a campaign."""
    resume = source.run("resume")
    return Curves(
        steps={phase: _steps(run.files) for phase, run in source.runs.items()},
        controls={name: _steps(files) for name, files in resume.controls.items()} if resume else {},
    )


def as_csv(curves: Curves) -> str:
    """Every curve as CSV: one line per step, decimal and exact (float hex) values.

    Columns ``loss_relative_difference`` and ``grad_norm_relative_difference`` are
    (candidate - reference) / reference. A cell is empty where nothing was recorded.
    """
    phases = [phase for phase in SIDES if curves.steps.get(phase)]
    every = sorted({step for phase in phases for step in curves.steps[phase]})
    ratios = {
        f"{field}_relative_difference": dict(zip(series.steps, series.values, strict=True))
        for field in ("loss", "grad_norm")
        if (series := curves.difference("candidate", "reference", field))
    }
    fields = ("loss", "loss_hex", "grad_norm", "grad_norm_hex", "lr")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"{SIDES[phase]}_{field}" for phase in phases for field in fields]
    writer.writerow(["step", *names, *ratios])
    for step in every:
        records = [curves.steps[phase].get(step) for phase in phases]
        cells = [getattr(r, field) if r else "" for r in records for field in fields]
        writer.writerow([step, *cells, *(ratio.get(step, "") for ratio in ratios.values())])
    return text.getvalue()
