"""backward-parity: each class on its own, the norm, sensitivity, completeness."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from certify.records import Comparison, Step
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import Campaign

GATE = "backward-parity"


def to(cls: str | None = None, **values: Any) -> Any:
    return lambda c: c.compared(GATE, cls, **values)


def without(cls: str) -> Any:
    def change(record: Comparison) -> Comparison:
        return dataclasses.replace(
            record, classes={k: v for k, v in record.classes.items() if k != cls}
        )

    return lambda c: c.edit(
        "compare", lambda r: isinstance(r, Comparison) and r.gate == GATE, change
    )


ROWS: list[Row] = [
    (to(), "PASS", "gradients of step 1 agree in 6 classes"),
    (to("expert", error=1e-4), "PASS", "expert differs most"),
    (to("expert", error=1.1e-4), "FAIL", "expert: relative gradient error 0.00011"),
    (to("router", error=1.0), "FAIL", "router: relative gradient error 1"),
    (to("head", error=float("nan")), "FAIL", "head: relative gradient error nan"),
    (to("norm", error=None), "INCONCLUSIVE", "gradient error of norm was not recorded"),
    (to(norm_relative_difference=1.1e-5), "FAIL", "global gradient norm differs by 1.1e-05"),
    (to(norm_relative_difference=None), "INCONCLUSIVE", "global norm was not recorded"),
    (to(rolled_error_min=5e-5), "FAIL", "a tensor rolled by one row is 5e-05 away"),
    (to(rolled_error_min=None), "INCONCLUSIVE", "rolled copy of a tensor was not tried"),
    (to(n_missing=1), "FAIL", "1 tensors are missing in the candidate"),
    (to(n_extra=2), "FAIL", "2 tensors are in the candidate only"),
    (to(n_other_shape=1), "FAIL", "another shape"),
    (to(nonfinite_candidate=3), "FAIL", "3 elements of the candidate are NaN"),
    (to(n_tensors=None), "INCONCLUSIVE", "number of compared tensors"),
    (without("expert"), "INCONCLUSIVE", "no parameters of class expert were compared"),
    (
        lambda c: c.edit_step("candidate", 3, ranks=(1,), grad_norm=9.0),
        "FAIL",
        "candidate step 3: grad norm of rank 1 is 9.0, of another rank 1.33",
    ),
    # The recorded norm is what the clip uses; scaled on every rank, the ranks still agree.
    (
        lambda c: c.edit_step("candidate", 1, grad_norm=2.0 * (1 + 2e-5)),
        "FAIL",
        "candidate recorded grad norm 2.00004 in step 1, its gradients have 2",
    ),
    (
        lambda c: c.edit_step("reference", 1, grad_norm=4.0),
        "FAIL",
        "reference recorded grad norm 4 in step 1, its gradients have 2",
    ),
    (lambda c: c.edit_step("candidate", 1, grad_norm=2.0 * (1 + 9e-6)), "PASS", ""),
    (
        lambda c: c.edit_step("candidate", 10, grad_norm=1.1 * (1 + 2e-4)),
        "FAIL",
        "recorded grad norms differ by 0.0002 in step 10 of the first 10",
    ),
    (lambda c: c.edit_step("candidate", 10, grad_norm=1.1 * (1 + 9e-5)), "PASS", ""),
    (lambda c: c.edit_step("candidate", 11, grad_norm=1.5), "PASS", ""),
    (
        lambda c: c.edit_step("candidate", 4, grad_norm=float("nan")),
        "FAIL",
        "recorded norms, first steps is not a number",
    ),
    (to(norm_candidate=None), "INCONCLUSIVE", "norm of the candidate's gradients was not recorded"),
    (to(norm_reference=2.1), "FAIL", "reference recorded grad norm 2 in step 1"),
    (
        lambda c: c.drop("reference", lambda r: isinstance(r, Step) and r.step == 7),
        "INCONCLUSIVE",
        "step 7 was not recorded by both sides",
    ),
    (
        lambda c: c.drop("reference", lambda r: isinstance(r, Step) and r.step == 1),
        "INCONCLUSIVE",
        "the reference did not record step 1",
    ),
    (lambda c: c.drop_run("compare"), "INCONCLUSIVE", "no comparison of the two sides' gradients"),
    (lambda c: c.drop_run("reference"), "INCONCLUSIVE", "the run reference left no records"),
]


@pytest.mark.parametrize("row", ROWS)
def test_fp32(row: Row) -> None:
    expect(GATE, row)


def bf16() -> Campaign:
    """Both sides against higher precision, 1% and 1.5% away."""
    campaign = Campaign()
    campaign.plan["precision"] = "bf16"
    for cls in ("embedding", "attention", "norm", "head", "router", "expert"):
        campaign.compared(GATE, cls, candidate_error=0.015, reference_error=0.01, error=0.02)
    return campaign


BF16: list[Row] = [
    (to(), "PASS", ""),
    (to("expert", candidate_error=0.021), "FAIL", "0.021, reference's own 0.01"),
    (to("expert", candidate_error=1.9e-3, reference_error=1e-5), "PASS", ""),
    (to("expert", reference_error=None), "INCONCLUSIVE", "gradient error of expert"),
    (to(norm_relative_difference=0.011), "FAIL", "global gradient norm"),
    (lambda c: c.edit_step("candidate", 1, grad_norm=2.0 * 1.009), "PASS", ""),
    (lambda c: c.edit_step("candidate", 1, grad_norm=2.0 * 1.011), "FAIL", "recorded grad norm"),
    # bf16 trajectories part at once: only step 1 has a limit.
    (lambda c: c.edit_step("candidate", 2, grad_norm=2.0), "PASS", ""),
]


@pytest.mark.parametrize("row", BF16)
def test_bf16(row: Row) -> None:
    expect(GATE, row, bf16())


def test_a_dense_model_needs_its_own_classes() -> None:
    expect(GATE, (to(), "PASS", "5 classes"), Campaign(moe=False))
    expect(GATE, (without("dense-mlp"), "INCONCLUSIVE", "dense-mlp"), Campaign(moe=False))
