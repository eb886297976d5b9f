"""The curves behind the figures, against numbers computed by hand."""

from __future__ import annotations

import csv
import io
import math

import pytest

from certify.records import Step
from reports.curves import Curves, as_csv, curves_of
from reports.source import read_source


def step(number: int, loss: float, norm: float = 1.0) -> Step:
    return Step(number, loss, loss.hex(), norm, norm.hex(), 0.1, 8, 8, "t", "m", number - 1, 0.1, 1)


def steps(*losses: float) -> dict[int, Step]:
    return {number: step(number, loss) for number, loss in enumerate(losses, start=1)}


def test_relative_difference():
    curves = Curves({"candidate": steps(2.2, 3.0, 1.0), "reference": steps(2.0, 4.0)}, {})
    found = curves.difference("candidate", "reference", "loss")
    assert found.steps == (1, 2)
    assert found.values == pytest.approx((0.1, -0.25))
    assert found.largest == pytest.approx(0.25)
    assert not found.zero
    assert curves.difference("candidate", "candidate", "loss").zero
    assert not curves.difference("candidate", "absent", "loss")


def test_what_cannot_be_drawn_is_left_out():
    curves = Curves(
        {"candidate": steps(math.nan, 1.0, math.inf), "reference": steps(1.0, 0.0, 1.0)}, {}
    )
    assert curves.series("candidate", "loss").steps == (2,)
    assert not curves.difference("candidate", "reference", "loss")


def test_csv_holds_every_step_decimal_and_exact(made):
    curves = curves_of(read_source(made("pass")[0]))
    rows = list(csv.DictReader(io.StringIO(as_csv(curves))))
    assert [int(row["step"]) for row in rows] == list(range(1, 201))
    for row in rows:
        assert float.fromhex(row["candidate_loss_hex"]) == float(row["candidate_loss"])
        ours, theirs = float(row["candidate_loss"]), float(row["reference_loss"])
        assert float(row["loss_relative_difference"]) == (ours - theirs) / theirs
    assert [row["step"] for row in rows if row["resumed_loss"]] == [str(n) for n in range(101, 151)]


def test_csv_of_a_cut_off_campaign(made):
    rows = list(csv.DictReader(io.StringIO(as_csv(curves_of(read_source(made("interrupted")[0]))))))
    assert len(rows) == 200
    assert [row["candidate_loss"] != "" for row in rows] == [True] * 73 + [False] * 127
    assert "resumed_loss" not in rows[0]
