"""Figures: the same bytes for the same data, fit for a strict page, readable by a machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reports.campaign_figures import drawings, loss_limits
from reports.curves import Series, curves_of
from reports.documents import verdict_document
from reports.figures import Drawing, Limit, Line, Panel, bent_scale, draw
from reports.source import read_source

SVG = "{http://www.w3.org/2000/svg}"


def series(*values: float) -> Series:
    return Series(tuple(range(1, len(values) + 1)), values)


def panel(*values: float, limits: tuple[Limit, ...] = ()) -> Panel:
    return Panel("difference", (Line(series(*values), "candidate"),), limits, signed=True)


def drawing(*panels: Panel) -> Drawing:
    return Drawing("x", "A <title> & more", "Words.", panels, ("half",))


def test_the_same_data_gives_the_same_bytes():
    one = drawing(panel(1e-7, -2e-7, 3e-7, limits=(Limit(0.002, "margin"),)))
    assert draw(one, "") == draw(one, "")


def test_a_picture_is_named_and_holds_no_style_no_date_no_shared_id():
    figure = draw(drawing(panel(0.1, -0.2)), ":root{--ink:#000}")
    root = ElementTree.fromstring(figure.inline["half"])
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "x-half-title x-half-desc"
    assert root.find(f"{SVG}title").text == "A <title> & more"
    assert root.find(f"{SVG}desc").text == "Words."
    for element in root.iter():
        assert "style" not in element.attrib
        assert element.tag not in (f"{SVG}style", f"{SVG}metadata", f"{SVG}script")
        assert element.get("id", "x-half-").startswith("x-half-")
        for value in element.attrib.values():
            assert not re.search(r"#0000[0-9a-f]{2}", value), "a placeholder colour is left"
            for reference in re.findall(r"url\(#([^)]+)\)", value):
                assert root.find(f".//*[@id='{reference}']") is not None
    assert "--ink" in figure.file
    assert "--ink:#000" not in figure.inline["half"]


def test_text_stays_text():
    found = ElementTree.fromstring(draw(drawing(panel(0.1, -0.2)), "").inline["half"])
    texts = ["".join(element.itertext()) for element in found.iter(f"{SVG}text")]
    assert "difference" in texts
    assert "step" in texts


@pytest.mark.parametrize(
    ("values", "limit", "bent"),
    [
        ((3e-7, -1e-7), 0.002, (1e-7, 0.002)),
        ((0.001, -0.001), 0.002, None),
        ((0.0, 0.0), 0.002, None),
        ((0.01,), None, None),
    ],
)
def test_a_scale_bends_only_when_a_linear_one_would_show_nothing(values, limit, bent):
    limits = (Limit(limit, "margin"),) if limit else ()
    found = bent_scale(panel(*values, limits=limits))
    assert found == (pytest.approx(bent) if bent else None)


def test_which_figures_a_campaign_has(made):
    def names(kind):
        source = read_source(made(kind)[0])
        return [d.name for d in drawings(source, curves_of(source))]

    assert names("pass") == ["loss", "grad-norm", "learning-rate", "resume"]
    assert names("interrupted") == ["loss", "grad-norm", "learning-rate"]


def test_the_description_says_what_the_eye_sees(made):
    source = read_source(made("pass")[0])
    loss, _, rate, resume = drawings(source, curves_of(source))
    assert "The reference repeated is identical in every step." in loss.description
    assert "in 200 common steps is" in loss.description
    assert "logarithmic" in loss.description
    assert rate.description == "Both sides used the same rate in all 200 common steps."
    assert "the uninterrupted one is zero in every step" in resume.description
    assert "control optimizer-dropped departs by up to" in resume.description


def test_limits_come_from_the_judge_alone(made):
    checks = [
        {"name": "drift", "outcome": "ok", "value": 1e-8, "limit": 0.002},
        {"name": "band width", "outcome": "reported", "value": 0.005, "limit": None},
    ]
    verdict = verdict_document({"gates": [{"gate": "loss-curve", "checks": checks}]})
    assert loss_limits(verdict) == (
        Limit(0.005, "band ± 0.005", filled=True),
        Limit(0.002, "margin of the mean ± 0.002"),
    )
    assert loss_limits(verdict_document({"gates": []})) == ()
    assert loss_limits(None) == ()


def test_pyplot_is_never_imported(made):
    code = (
        "import sys; from pathlib import Path; from reports.campaign import build;"
        f"build(Path({str(made('interrupted')[0])!r}), Path(sys.argv[1]));"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    out = made("interrupted")[0].parent / "no-pyplot"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
