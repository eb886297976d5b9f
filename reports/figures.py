"""The figures: drawn by matplotlib without pyplot, the same bytes for the same data."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.numbers import plain, power
from reports.svg import PALETTE, themed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reports.curves import Series

# Width and height in points: about CSS pixels at the width they are shown at.
SIZES = {
    "wide": (860.0, 480.0),
    "narrow": (360.0, 430.0),
    "tall": (430.0, 380.0),
    "half": (430.0, 230.0),
}
SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "ascend-certify",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": PALETTE["quiet"],
    "axes.labelcolor": PALETTE["quiet"],
    "axes.labelsize": 11,
    "axes.titlesize": 11,
    "text.color": PALETTE["quiet"],
    "xtick.color": PALETTE["quiet"],
    "ytick.color": PALETTE["quiet"],
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "grid.color": PALETTE["grid"],
    "grid.linewidth": 0.7,
    "path.simplify": True,
    "path.simplify_threshold": 0.1,
}


@dataclass(frozen=True)
class Line:
    """One curve. role: a key of `svg.PALETTE`; width in points; dashed, or solid."""

    series: Series
    role: str
    width: float = 1.4
    dashed: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Limit:
    """A symmetric limit of a difference. filled: drawn as a band, else as two lines."""

    value: float
    label: str
    filled: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes. signed: a difference, drawn around zero."""

    title: str
    lines: tuple[Line, ...]
    limits: tuple[Limit, ...] = ()
    signed: bool = False
    weight: float = 1.0


@dataclass(frozen=True)
class Drawing:
    """A figure to draw: panels from top to bottom over one axis of steps."""

    name: str
    title: str
    description: str
    panels: tuple[Panel, ...]
    sizes: tuple[str, ...] = ("half",)


@dataclass(frozen=True)
class Figure:
    """inline: size -> markup for a page; file: the first size as a file of its own."""

    name: str
    inline: Mapping[str, str]
    file: str


def draw(drawing: Drawing, palette: str) -> Figure:
    """Draw every size of a figure. palette: see `svg.themed`."""
    inline, file = {}, ""
    for size in drawing.sizes:
        name = f"{drawing.name}-{size}"
        markup, own = themed(
            _render(drawing, size), name, drawing.title, drawing.description, palette
        )
        inline[size] = markup
        file = file or own
    return Figure(drawing.name, inline, file)


def _render(drawing: Drawing, size: str) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    width, height = SIZES[size]
    with matplotlib.rc_context(SETTINGS):
        canvas = Canvas(figsize=(width / 72, height / 72), facecolor="none")
        canvas.set_layout_engine("constrained", h_pad=0.1, w_pad=0.02, hspace=0.06)
        axes: Any = canvas.subplots(
            len(drawing.panels),
            1,
            sharex=True,
            squeeze=False,
            height_ratios=[panel.weight for panel in drawing.panels],
        )[:, 0]
        for one, panel in zip(axes, drawing.panels, strict=True):
            _panel(one, panel, narrow=size != "wide")
        axes[-1].set_xlabel("step")
        text = io.StringIO()
        FigureCanvasSVG(canvas).print_svg(text, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _panel(axes: Any, panel: Panel, narrow: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_facecolor("none")
    axes.set_title(panel.title, loc="left", pad=8, color=PALETTE["ink"])
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    axes.xaxis.set_major_locator(MaxNLocator(5 if narrow else 10, integer=True))
    for line in panel.lines:
        axes.plot(
            line.series.steps,
            line.series.values,
            color=PALETTE[line.role],
            linewidth=line.width,
            linestyle=(0, (4, 2.5)) if line.dashed else "-",
            marker="o" if line.dots else None,
            markersize=3.2,
            markeredgewidth=0,
            solid_capstyle="round",
        )
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value, digits=3)))
    axes.margins(x=0.01)
    if panel.signed:
        _signed_scale(axes, panel)


def bent_scale(panel: Panel) -> tuple[float, float] | None:
    """(threshold, bound) of a scale that is linear around zero and logarithmic beyond.

    Differences are often thousands of times smaller than their limits: only such a scale shows
    both. None where a linear one does.
    """
    largest = max((line.series.largest for line in panel.lines), default=0.0)
    bound = max([largest, *(limit.value for limit in panel.limits)])
    if not largest or largest >= bound / 50:
        return None
    return 10.0 ** math.floor(math.log10(largest)), bound


def _signed_scale(axes: Any, panel: Panel) -> None:
    """A scale around zero, with the limits of what is drawn."""
    from matplotlib.ticker import FuncFormatter

    axes.axhline(0, color=PALETTE["quiet"], linewidth=0.8)
    if bent := bent_scale(panel):
        threshold, bound = bent
        axes.set_yscale("symlog", linthresh=threshold, linscale=0.8)
        decades = range(round(math.log10(threshold)), math.ceil(math.log10(bound)) + 1)
        ticks = [10.0**d for d in decades][:: max(1, math.ceil(len(decades) / 3))]
        axes.set_yticks([-t for t in reversed(ticks)] + [0.0] + ticks)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
        axes.minorticks_off()
        axes.set_ylim(-bound * 20, bound * 20)
    elif panel.limits:
        bound = max(limit.value for limit in panel.limits)
        bound = max(bound, *(line.series.largest for line in panel.lines))
        axes.set_ylim(-bound * 1.25, bound * 1.25)
    _draw_limits(axes, panel.limits)


def _draw_limits(axes: Any, limits: Sequence[Limit]) -> None:
    for limit in limits:
        # A band is named below it and a margin above it: the two may lie close together.
        if limit.filled:
            axes.axhspan(-limit.value, limit.value, color=PALETTE["band"], linewidth=0, zorder=0)
        else:
            for sign in (-1, 1):
                axes.axhline(
                    sign * limit.value,
                    color=PALETTE["limit"],
                    linewidth=0.9,
                    linestyle=(0, (5, 3)),
                )
        axes.annotate(
            limit.label,
            (1, -limit.value if limit.filled else limit.value),
            xycoords=("axes fraction", "data"),
            xytext=(-4, -3 if limit.filled else 3),
            textcoords="offset points",
            ha="right",
            va="top" if limit.filled else "bottom",
            fontsize=10,
            color=PALETTE["ink"],
        )
