"""Numbers as a page writes them."""

from __future__ import annotations

import pytest

from reports import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (0, "0"),
        (20480, "20,480"),
        (-7, "−7"),
        (0.0, "0"),
        (0.002, "0.002"),
        (-0.00348, "−0.00348"),
        (0.9999987, "0.9999987"),
        (0.99, "0.99"),
        (6.4682, "6.468"),
        (123456.7, "123,457"),
        (1e-4, "10⁻⁴"),
        (-1e-4, "−10⁻⁴"),
        (2.96e-7, "2.96×10⁻⁷"),
        (-4.1e-8, "−4.1×10⁻⁸"),
        (1e6, "10⁶"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("bf16", "bf16"),
        (["model.layers.{*}"], '["model.layers.{*}"]'),
        ({"名": 1}, '{"名": 1}'),
    ],
)
def test_plain(value, text):
    assert numbers.plain(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.44, "9.4 s"), (59.96, "60.0 s"), (161.4, "2 min 41 s"), (11_100, "3 h 05 min")],
)
def test_seconds(value, text):
    assert numbers.seconds(value) == text


def test_interval_power_size_and_moment():
    assert numbers.interval(-4.1e-8, 8e-8) == "−4.1×10⁻⁸ … 8×10⁻⁸"
    assert numbers.interval(None, None) == "–"
    assert [numbers.power(v) for v in (0, 0.001, -1e-7)] == ["0", "10⁻³", "−10⁻⁷"]
    assert [numbers.size(n) for n in (812, 104_600, 1_240_000)] == ["812 B", "105 kB", "1.2 MB"]
    assert numbers.moment(1_796_076_000) == "2026-11-30 22:00 UTC"
    assert numbers.moment(0.0) == numbers.moment(float("inf")) == "–"
