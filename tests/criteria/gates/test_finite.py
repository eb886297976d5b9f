"""finite: broken numbers, and logs that hide them."""

from __future__ import annotations

import pytest

from certify.records import Step
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import Campaign, with_values

NAN, INF = float("nan"), float("inf")
HEX = (6.0).hex()


def hidden(c: Campaign) -> None:
    body = c.runs["candidate"][0]
    at = next(i for i, r in enumerate(body) if isinstance(r, Step) and r.step == 5)
    body.insert(at, with_values(c.step("candidate", 5), loss=NAN))


ROWS: list[Row] = [
    (lambda c: None, "PASS", "1300 recorded steps"),
    (
        lambda c: c.edit_step("candidate", 5, loss=NAN),
        "FAIL",
        "candidate rank 0 step 5: loss is nan",
    ),
    (
        lambda c: c.edit_step("reference", 5, loss=INF),
        "FAIL",
        "reference rank 0 step 5: loss is inf",
    ),
    (
        lambda c: c.edit_step("candidate", 5, ranks=(1,), grad_norm=NAN),
        "FAIL",
        "rank 1 step 5: grad",
    ),
    (lambda c: c.edit_step("candidate", 5, loss=0.0), "FAIL", "loss is 0.0"),
    (lambda c: c.edit_step("candidate", 5, grad_norm=0.0), "FAIL", "grad norm is 0.0"),
    (lambda c: c.edit_step("candidate", 5, loss=-1.0), "FAIL", "loss is -1.0"),
    # A log that prints 0 for NaN, or a plausible number beside the exact NaN.
    (lambda c: c.edit_step("candidate", 5, loss=0.0, loss_hex="nan"), "FAIL", "loss is 0.0 (nan)"),
    (lambda c: c.edit_step("candidate", 5, loss=6.0, loss_hex="nan"), "FAIL", "loss is 6.0 (nan)"),
    (lambda c: c.edit_step("candidate", 5, loss=6.1, loss_hex=HEX), "FAIL", "its exact form is"),
    (lambda c: c.edit_step("candidate", 5, loss=6.0, loss_hex="six"), "FAIL", "exact form is six"),
    (lambda c: c.edit_step("candidate", 5, aux_loss=NAN), "FAIL", "auxiliary loss is nan"),
    (
        lambda c: c.drop("candidate", lambda r: isinstance(r, Step) and r.step == 5),
        "FAIL",
        "candidate rank 0 step 5: left out of the records",
    ),
    # A later record of the same step hides nothing.
    (hidden, "FAIL", "candidate rank 0 step 5: loss is nan"),
    (lambda c: c.edit_step("resume", 120, loss=NAN), "FAIL", "resume rank 0 step 120"),
    (lambda c: c.drop_run("candidate"), "INCONCLUSIVE", "the run candidate left no records"),
]


@pytest.mark.parametrize("row", ROWS)
def test_table(row: Row) -> None:
    expect("finite", row)


def test_a_nan_fails_the_campaign_even_where_it_is_written_as_json() -> None:
    verdict = Campaign().edit_step("candidate", 5, loss=NAN).judge()
    assert verdict.verdict == "FAIL"
    assert {g.gate for g in verdict.gates if g.verdict == "FAIL"} >= {"finite", "loss-curve"}
