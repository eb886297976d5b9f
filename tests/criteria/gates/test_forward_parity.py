"""forward-parity: the ratio rule with its floor, near-ties apart, too little evidence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import Campaign

GATE = "forward-parity"


def to(**values: Any) -> Any:
    return lambda c: c.compared(GATE, **values)


ROWS: list[Row] = [
    (to(), "PASS", "over 20,480 positions"),
    (to(loss_rel_diff=1e-5), "PASS", ""),
    (to(loss_rel_diff=1.01e-5), "FAIL", "loss"),
    (to(loss_rel_diff=float("nan")), "FAIL", "loss"),
    (to(loss_rel_diff=None), "INCONCLUSIVE", "loss"),
    # Twice the reference's own error, but never less than twice the floor.
    (to(logits_max_error_candidate=2e-6), "PASS", ""),
    (to(logits_max_error_candidate=2.1e-6), "FAIL", "candidate 2.1e-06, reference's own 1e-06,"),
    (to(logits_max_error_candidate=2.1e-6, logits_max_error_reference=1.1e-6), "PASS", ""),
    (to(logits_max_error_candidate=1.9e-6, logits_max_error_reference=0.0), "PASS", ""),
    (
        to(logits_max_error_candidate=2.1e-6, logits_max_error_reference=0.0),
        "FAIL",
        "(floor 1e-06)",
    ),
    (
        to(logits_max_error_candidate=1e-9, logits_max_error_reference=0.0, logits_rms_oracle=None),
        "FAIL",
        "at most 2 times",
    ),
    (to(logits_rms_error_candidate=2.5e-7), "FAIL", "logits rms error"),
    (to(logits_rms_error_candidate=float("inf")), "FAIL", "inf"),
    (to(logits_max_error_reference=None), "INCONCLUSIVE", "against the oracle was not recorded"),
    (to(rows_compared=900), "INCONCLUSIVE", "900 rows of logits compared, at least 1,000"),
    (to(kl_mean=1.1e-6), "FAIL", "KL"),
    (to(kl_mean=None), "INCONCLUSIVE", "KL divergence was not recorded"),
    (to(kl_mean=float("nan")), "FAIL", "KL divergence is not a number"),
    (to(kl_mean=1.5e-6), "FAIL", "KL divergence is 1.5e-06, more than 1e-06"),
    (to(loss_rel_diff=float("nan")), "FAIL", "loss difference is not a number"),
    # 20,480 positions: 99.99% allow two real disagreements.
    (to(top1_disagreements=4), "PASS", ""),
    (to(top1_disagreements=5), "FAIL", "top-1: 3 of 20,480 differ beyond a near-tie"),
    (to(top1_disagreements=5, top1_near_ties=3), "PASS", ""),
    (to(top1_near_ties=None), "INCONCLUSIVE", "top-1 were not compared"),
    (to(positions=19_999), "INCONCLUSIVE", "19,999 top-1 compared, at least 20,000"),
    (to(positions=float("nan")), "FAIL", "of nan differ"),
    (to(top1_disagreements=float("inf")), "FAIL", "top-1: inf of 20,480 differ"),
    (to(routing_disagreements=8), "FAIL", "top-k sets: 7 of 61,440 differ"),
    (to(routing_sets=None), "INCONCLUSIVE", "no top-k sets compared"),
    (lambda c: c.drop_run("compare"), "INCONCLUSIVE", "no comparison of the two sides' logits"),
]


@pytest.mark.parametrize("row", ROWS)
def test_fp32(row: Row) -> None:
    expect(GATE, row)


def bf16(c: Campaign) -> Campaign:
    c.plan["precision"] = "bf16"
    return c.compared(
        GATE,
        logits_max_error_candidate=0.06,
        logits_max_error_reference=0.05,
        logits_rms_error_candidate=0.006,
        logits_rms_error_reference=0.005,
    )


BF16: list[Row] = [
    (to(), "PASS", ""),
    (to(loss_rel_diff=4e-4, kl_mean=9e-4, top1_disagreements=200, top1_near_ties=0), "PASS", ""),
    (to(loss_rel_diff=6e-4), "FAIL", "loss"),
    (to(kl_mean=1.1e-3), "FAIL", "KL"),
    (to(logits_max_error_candidate=0.13), "FAIL", "logits max error"),
    (to(top1_disagreements=210), "FAIL", "top-1"),
]


@pytest.mark.parametrize("row", BF16)
def test_bf16(row: Row) -> None:
    expect(GATE, row, bf16(Campaign()))


def test_a_dense_model_has_no_top_k_sets() -> None:
    campaign = Campaign(moe=False).compared(GATE, routing_sets=None, routing_disagreements=None)
    expect(GATE, (to(), "PASS", ""), campaign)


def test_full_scale_takes_the_oracle_over_from_reduced() -> None:
    campaign = Campaign()
    campaign.plan["scale"] = "full"
    spoil = to(logits_max_error_candidate=1.0, kl_mean=1.0, positions=5, top1_disagreements=5)
    expect(GATE, (spoil, "PASS", ""), campaign)
    expect(GATE, (to(loss_rel_diff=1e-3), "FAIL", "loss"), campaign)


def test_near_ties_are_shown_apart() -> None:
    checks = {check.name: check for check in Campaign().gate(GATE).checks}
    assert checks["top-1 near-ties"].outcome == "reported"
    assert checks["top-1 near-ties"].value == 2
    assert checks["top-1 agreement"].value == 1
