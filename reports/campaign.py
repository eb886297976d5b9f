"""The page of one campaign: reads its folder, draws, copies the evidence, writes ``index.html``."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify import __version__
from certify.errors import UsageError
from reports.campaign_figures import drawings
from reports.curves import as_csv, curves_of
from reports.evidence import copy_evidence
from reports.render import palette, render, require_report, write_text
from reports.sides import compare_sides
from reports.source import read_source
from reports.summary import AFTERWARDS, headline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from certify.store.rows import Run
    from reports.curves import Curves
    from reports.documents import GateDocument
    from reports.figures import Drawing, Figure
    from reports.source import Source

# Steps whose values are also shown as a table, for those who cannot see the figure.
TABLE_STEPS = (1, 2, 5, 10, 20, 50, 100, 150, 200, 500, 1000, 2000)


@dataclass(frozen=True)
class Command:
    """A command to copy. purpose: what it does."""

    purpose: str
    line: str


@dataclass(frozen=True)
class Bar:
    """An interval drawn to scale in a box 120 wide: x of the limits, of the interval's ends and
    of its estimate. inside: both ends lie within the limits."""

    limit_low: float
    limit_high: float
    low: float
    high: float
    estimate: float
    inside: bool


@dataclass(frozen=True)
class LossRow:
    """One line of the table beside the loss figure."""

    step: int
    candidate: float | None
    reference: float | None
    difference: float | None


def build(campaign: Path, out: Path, runs: Sequence[Run] = ()) -> Path:
    """Write the page of a campaign to ``out/index.html``; returns that path.

    campaign: its folder; runs: its rows in the store, for the history of attempts. The folder
    `out` needs nothing else afterwards: figures, data and evidence are copied into it.

    Raises UsageError for a folder without a campaign, InfrastructureError when `out` cannot be
    written.
    """
    require_report()
    campaign, out = campaign.absolute(), out.absolute()
    if out == campaign or out in campaign.parents:
        raise UsageError(
            "the page would overwrite the campaign",
            where=str(out),
            hint=f"certify report build {shlex.quote(str(campaign))} {campaign.name}-page",
        )
    source = read_source(campaign)
    curves = curves_of(source)
    planned = drawings(source, curves)
    if any(curves.steps.values()):
        write_text(out / "figures" / "curves.csv", as_csv(curves))
    text = render(
        "campaign.html",
        **_described(source, curves),
        figures=_draw(planned, out),
        drawings={drawing.name: drawing for drawing in planned},
        evidence=copy_evidence(source, out),
        runs=[run for run in runs if run.phase not in AFTERWARDS],
    )
    write_text(out / "index.html", text)
    return out / "index.html"


def _described(source: Source, curves: Curves) -> dict[str, Any]:
    """What the templates show, figures and files aside."""
    return {
        "version": __version__,
        "source": source,
        "headline": headline(source.campaign, source.verdict),
        "sides": compare_sides(source),
        "loss_rows": _loss_rows(curves),
        "again": curves.difference("reference-again", "reference", "loss"),
        "controls": sorted(curves.controls),
        "commands": _commands(source),
        "bar": interval_bar,
        "phases": [p for p in source.campaign.phases if p.name not in AFTERWARDS],
    }


def _draw(planned: Sequence[Drawing], out: Path) -> dict[str, Figure]:
    """Draw and save every figure; its markup is safe to put into the page as it is."""
    from markupsafe import Markup

    from reports.figures import draw

    figures = {}
    for drawing in planned:
        figure = draw(drawing, palette())
        write_text(out / "figures" / f"{figure.name}.svg", figure.file)
        # Built by an XML library, which escaped every text in it.
        inline = {size: Markup(markup) for size, markup in figure.inline.items()}
        figures[figure.name] = dataclasses.replace(figure, inline=inline)
    return figures


def _loss_rows(curves: Curves) -> list[LossRow]:
    candidate, reference = (curves.steps.get(side, {}) for side in ("candidate", "reference"))
    difference = curves.difference("candidate", "reference", "loss")
    by_step = dict(zip(difference.steps, difference.values, strict=True))
    last = max((*candidate, *reference), default=0)
    shown = sorted(
        {step for step in (*TABLE_STEPS, last) if step in candidate or step in reference}
    )
    return [
        LossRow(
            step,
            candidate[step].loss if step in candidate else None,
            reference[step].loss if step in reference else None,
            by_step.get(step),
        )
        for step in shown
    ]


def _commands(source: Source) -> list[Command]:
    """What a reader can run to see the same. Paths are relative to the folder of the page."""
    commands = []
    if source.campaign.command:
        commands.append(
            Command("Run the campaign again, from nothing", shlex.join(source.campaign.command))
        )
    commands.append(
        Command(
            "Check that the records beside this page are those it was made from",
            "cd evidence && sha256sum --check SHA256SUMS",
        )
    )
    if source.plan is not None:
        commands.append(Command("Judge the same records again", "certify judge evidence"))
    commands.append(Command("Write this page again", "certify report build evidence page-again"))
    return commands


def interval_bar(gate: GateDocument) -> Bar | None:
    """The interval of a gate against its margin, None where it has no such numbers."""
    numbers = (gate.low, gate.high, gate.statistic, gate.margin)
    if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
        return None
    low, high, estimate, margin = (float(n) for n in numbers if n is not None)
    if margin <= 0 or low > high:
        return None
    reach = 1.25 * max(margin, abs(low), abs(high))

    def x(value: float) -> float:
        return round(60 + 60 * value / reach, 2)

    inside = -margin <= low and high <= margin
    return Bar(x(-margin), x(margin), x(low), x(high), x(estimate), inside)
