"""Which figures the page of a campaign has, and what their captions say. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.figures import Drawing, Limit, Line, Panel, bent_scale
from reports.numbers import plain

if TYPE_CHECKING:
    from reports.curves import Curves, Series
    from reports.documents import VerdictDocument
    from reports.source import Source


BENT = (
    "The lower scale is logarithmic away from zero, so that the differences and their far larger"
    " limits are both seen."
)


def drawings(source: Source, curves: Curves) -> list[Drawing]:
    """The figures for which there are records; loss and difference come first."""
    candidates = (
        _loss(source, curves),
        _grad_norm(curves),
        _learning_rate(curves),
        _resume(curves),
    )
    return [drawing for drawing in candidates if drawing is not None]


def _pair(curves: Curves, field: str) -> tuple[Line, ...]:
    """The reference broad and pale, the candidate thin on top: both show where they coincide."""
    lines = (
        Line(curves.series("reference", field), "reference", 4.2),
        Line(curves.series("candidate", field), "candidate", 1.3),
    )
    return tuple(line for line in lines if line.series)


def loss_limits(verdict: VerdictDocument | None) -> tuple[Limit, ...]:
    """Margin of the drift and width of the band, as the judge stated them."""
    gate = verdict.gate("loss-curve") if verdict else None
    if gate is None:
        return ()
    drift, band = gate.check("drift"), gate.check("band width")
    limits = []
    if band and isinstance(band.value, float) and band.value > 0:
        limits.append(Limit(band.value, f"band ± {plain(band.value)}", filled=True))
    if drift and isinstance(drift.limit, float) and drift.limit > 0:
        limits.append(Limit(drift.limit, f"margin of the mean ± {plain(drift.limit)}"))
    return tuple(limits)


def _difference_lines(curves: Curves, field: str) -> tuple[Line, ...]:
    again = curves.difference("reference-again", "reference", field)
    lines = [Line(curves.difference("candidate", "reference", field), "candidate", 1.1)]
    if again and not again.zero:
        lines.insert(0, Line(again, "again", 1.0, dashed=True))
    return tuple(line for line in lines if line.series)


def _loss(source: Source, curves: Curves) -> Drawing | None:
    pair, difference = _pair(curves, "loss"), _difference_lines(curves, "loss")
    if not pair:
        return None
    panels = [Panel("loss (nats per token)", pair, weight=1.25)]
    if difference:
        panels.append(
            Panel(
                "relative difference, (candidate − reference) / reference",
                difference,
                loss_limits(source.verdict),
                signed=True,
            )
        )
    bent = any(panel.signed and bent_scale(panel) for panel in panels)
    return Drawing(
        "loss",
        "Loss of candidate and reference, and their relative difference",
        _loss_description(curves) + (f" {BENT}" if bent else ""),
        tuple(panels),
        ("wide", "narrow"),
    )


def _ends(series: Series, name: str) -> str:
    if not series:
        return f"The {name} left no steps."
    return (
        f"The {name} goes from {plain(series.values[0])} at step {series.steps[0]} to "
        f"{plain(series.values[-1])} at step {series.steps[-1]}."
    )


def _loss_description(curves: Curves) -> str:
    words = [_ends(curves.series(side, "loss"), side) for side in ("candidate", "reference")]
    difference = curves.difference("candidate", "reference", "loss")
    if difference:
        words.append(
            f"The largest relative difference in {len(difference.steps)} common steps is "
            f"{plain(difference.largest, 3)}."
        )
    again = curves.difference("reference-again", "reference", "loss")
    if again:
        words.append(
            "The reference repeated is identical in every step."
            if again.zero
            else f"The reference repeated differs by at most {plain(again.largest, 3)}."
        )
    return " ".join(words)


def _grad_norm(curves: Curves) -> Drawing | None:
    pair, difference = _pair(curves, "grad_norm"), _difference_lines(curves, "grad_norm")
    if not pair:
        return None
    panels = [Panel("gradient norm before clipping", pair, weight=1.25)]
    words = [_ends(curves.series(side, "grad_norm"), side) for side in ("candidate", "reference")]
    if difference:
        panels.append(Panel("relative difference", difference, signed=True))
        largest = max(line.series.largest for line in difference if line.role == "candidate")
        words.append(f"The largest relative difference is {plain(largest, 3)}.")
    return Drawing(
        "grad-norm",
        "Gradient norm of candidate and reference, and their relative difference",
        " ".join(words),
        tuple(panels),
        ("tall",),
    )


def _learning_rate(curves: Curves) -> Drawing | None:
    pair = _pair(curves, "lr")
    if not pair:
        return None
    words = [_ends(curves.series(side, "lr"), side) for side in ("candidate", "reference")]
    difference = curves.difference("candidate", "reference", "lr")
    if difference.zero:
        words = [f"Both sides used the same rate in all {len(difference.steps)} common steps."]
    return Drawing(
        "learning-rate",
        "Learning rate that each step used",
        " ".join(words),
        (Panel("learning rate", pair),),
    )


def _resume(curves: Curves) -> Drawing | None:
    """The resumed run against the uninterrupted one, with the controls that must not match."""
    resumed = curves.difference("resume", "candidate", "loss")
    if not resumed:
        return None
    controls = {
        name: series
        for name in curves.controls
        if (series := curves.control(name, "candidate", "loss"))
    }
    lines = [Line(series, "control", 1.1, dots=True) for series in controls.values()]
    lines.append(Line(resumed, "candidate", 1.6))
    same = "is zero in every step" if resumed.zero else f"reaches {plain(resumed.largest, 3)}"
    words = [f"The difference of the resumed run to the uninterrupted one {same}."]
    words += [
        f"The negative control {name} departs by up to {plain(series.largest, 3)}."
        for name, series in controls.items()
    ]
    return Drawing(
        "resume",
        "Loss after resuming, relative to the uninterrupted run",
        " ".join(words),
        (Panel("relative difference to the uninterrupted run", tuple(lines), signed=True),),
    )
