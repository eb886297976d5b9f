"""The verdict as text, whole output at two widths."""

from __future__ import annotations

from typing import Any

import pytest

from certify.criteria.outcome import as_json
from certify.criteria.table import number, render
from tests.criteria.synthetic import Campaign


def document(*, gates: list[dict[str, Any]], verdict: str = "FAIL") -> dict[str, Any]:
    empty = {
        "low": None,
        "high": None,
        "n": None,
        "unit": "",
        "statistic": None,
        "margin": None,
        "checks": [],
    }
    return {
        "verdict": verdict,
        "gates": [{**empty, **gate} for gate in gates],
        "claim": "mechanics verified (tiny, cpu)" if verdict == "PASS" else None,
        "criteria": {"version": "v1", "sha256": "ab" * 32},
        "scale": "tiny",
        "device": "cpu",
        "attempts": {"candidate": 2},
    }


GATES: list[dict[str, Any]] = [
    {
        "gate": "loss-curve",
        "verdict": "PASS",
        "reason": "no drift",
        "statistic": 0.0001,
        "low": -0.0002,
        "high": 0.0005,
        "margin": 0.002,
        "n": 200,
        "unit": "relative",
    },
    {
        "gate": "resume",
        "verdict": "FAIL",
        "reason": "exp_avg differs",
        "statistic": 1,
        "margin": 0,
        "n": 9,
        "unit": "departures",
        "checks": [
            {"name": "state", "outcome": "violated", "value": 1, "limit": 0, "unit": "departures"},
            {"name": "trajectory", "outcome": "undecided", "value": 12, "limit": 50},
            {"name": "batches", "outcome": "ok", "value": 0, "limit": 0},
        ],
    },
    {"gate": "upgrade", "verdict": "NOT REQUIRED", "reason": "run with --phases upgrade"},
]

WIDE = """\
gate        verdict       measured                  limit    spare  n    reason
loss-curve  PASS          0.0001 [-0.0002, 0.0005]  +-0.002  75%    200  no drift
resume      FAIL          1                         0               9    exp_avg differs
    - violated: state, 1 found
    - undecided: trajectory is 12, limit 50
upgrade     NOT REQUIRED                                                 run with --phases upgrade

verdict: FAIL
claim: none; only a PASS entitles to one
criteria: v1, sha256 abababababababab; scale tiny, device cpu
started more than once (times): candidate 2"""

NARROW = """\
loss-curve  PASS
    measured 0.0001 [-0.0002, 0.0005],
    limit +-0.002, spare 75%, n 200
    no drift
resume      FAIL
    measured 1, limit 0, n 9
    exp_avg differs
    - violated: state, 1 found
    - undecided: trajectory is 12, limit
      50
upgrade     NOT REQUIRED
    run with --phases upgrade

verdict: FAIL
claim: none; only a PASS entitles to one
criteria: v1, sha256 abababababababab;
scale tiny, device cpu
started more than once (times):
candidate 2"""


def test_wide() -> None:
    assert render(document(gates=GATES), 120) == WIDE


def test_narrow() -> None:
    assert render(document(gates=GATES), 40) == NARROW


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    campaign = Campaign().edit_step("candidate", 5, lr=1.0).drop_run("resume")
    lines = render(as_json(campaign.judge()), width).splitlines()
    # Words are not broken by hand: only a single long word may stand out of a tiny terminal.
    assert all(len(line) <= max(width, 40) for line in lines)


def test_a_pass_shows_its_claim_and_all_gates() -> None:
    text = render(as_json(Campaign().judge()), 140)
    assert "verdict: PASS\nclaim: mechanics verified (tiny, cpu)\n" in text
    assert text.count("NOT REQUIRED") == 9
    assert "\x1b" not in text


def test_a_seeded_fault_is_said_and_claims_nothing() -> None:
    campaign = Campaign()
    campaign.plan["inject"] = {"side": "candidate", "name": "lr-off-by-one"}
    text = render(as_json(campaign.judge()), 140)
    assert (
        "verdict: PASS\n"
        "seeded fault: lr-off-by-one (candidate side); no claim\n"
        "claim: none; a seeded fault entitles to none\n"
    ) in text
    assert "mechanics verified" not in text


def test_notes_are_lines() -> None:
    noted = {**document(gates=[]), "notes": ["a line was cut off"]}
    assert render(noted, 100).endswith("\nnote: a line was cut off")


def test_many_faults_are_cut() -> None:
    faults = [
        {"name": f"c{i}", "outcome": "violated", "value": 1.0, "limit": 0.5} for i in range(9)
    ]
    gate = {"gate": "g", "verdict": "FAIL", "reason": "r", "checks": faults}
    text = render(document(gates=[gate]), 100)
    assert "c5 is 1, limit 0.5" in text
    assert "c6" not in text
    assert "- and 3 more (--json lists all)" in text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "", ""),
        (0.99951234, "cosine", "0.999512"),
        (1.23456e-7, "relative", "1.23e-07"),
        (0.25, "s", "0.25 s"),
        (123456, "bytes", "123,456 bytes"),
        (50.0, "", "50"),
        ("nan", "", "nan"),
        ("ab" * 32, "", "abababababab..."),
        (1e300, "", "1e+300"),
    ],
)
def test_numbers(value: Any, unit: str, text: str) -> None:
    assert number(value, unit) == text
