"""plan-followed: any departure of a side FAILs and is named; missing evidence is INCONCLUSIVE."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from certify.records import Component, Environment, Modules, State, Step
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import Campaign

GATE = "plan-followed"


def lr_off_by_one(c: Campaign) -> Any:
    return c.edit(
        "candidate",
        lambda r: isinstance(r, Step),
        lambda r: dataclasses.replace(r, lr=1e-3 * (r.step + 1) / 200),
    )


def trained(phase: str, **to: Any) -> Any:
    return lambda c: c.edit(
        phase, lambda r: isinstance(r, Modules), lambda r: dataclasses.replace(r, **to)
    )


FAILS: list[Row] = [
    (lr_off_by_one, "FAIL", "candidate step 1: lr is 1e-05, plan 5e-06 (and 199 more)"),
    (lambda c: c.edit_step("candidate", 9, lr=4.5e-05 * (1 + 1e-11)), "FAIL", "step 9: lr"),
    (lambda c: c.edit_step("reference", 9, lr=float("nan")), "FAIL", "reference step 9: lr is nan"),
    (
        lambda c: c.edit_step("reference", 3, tokens_sha256="ab" * 32),
        "FAIL",
        "reference step 3: tokens_sha256 is abababababab, plan",
    ),
    (lambda c: c.edit_step("candidate", 3, mask_sha256="ab" * 32), "FAIL", "step 3: mask_sha256"),
    (
        lambda c: c.edit_step("candidate", 3, supervised_tokens=511),
        "FAIL",
        "candidate step 3: supervised_tokens is 511, plan 512",
    ),
    (lambda c: c.edit_step("candidate", 3, tokens=511), "FAIL", "step 3: tokens is 511"),
    (lambda c: c.edit_step("candidate", 3, batch=3), "FAIL", "step 3: batch is 3, plan 2"),
    (lambda c: c.edit_step("candidate-again", 3, batch=3), "FAIL", "candidate-again step 3: batch"),
    (
        lambda c: c.edit_step("candidate", 8, ranks=(1,), loss=5.0),
        "FAIL",
        "candidate step 8: rank 1 has loss_hex",
    ),
    (lambda c: c.edit_step("candidate", 8, ranks=(1,), grad_norm=5.0), "FAIL", "grad_norm_hex"),
    (lambda c: c.edit_step("candidate", 8, ranks=(0,), routing_sha256="ff"), "FAIL", "routing"),
    (
        lambda c: c.state_part("candidate", "init", "params", "bb" * 32),
        "FAIL",
        "candidate rank 0: initial weights are bbbbbbbbbbbb, plan aaaaaaaaaaaa",
    ),
    (lambda c: c.state_part("reference", "init", "params", "bb" * 32), "FAIL", "reference rank 0"),
    (
        lambda c: c.effective("candidate", "model", aux_loss_coef=0.0),
        "FAIL",
        "candidate model: effective aux_loss_coef is 0.0, plan 0.001",
    ),
    (lambda c: c.effective("reference", "model", aux_loss_formula="pooled"), "FAIL", "'pooled'"),
    (
        lambda c: c.edit(
            "candidate",
            lambda r: isinstance(r, Component) and r.part == "optimizer",
            lambda r: dataclasses.replace(r, effective={**r.effective, "beta2": 0.5}),
            ranks=(1,),
        ),
        "FAIL",
        "beta2 is 0.5",
    ),
    (lambda c: c.effective("resume", "optimizer", beta2=0.999), "FAIL", "resume optimizer"),
    (lambda c: c.effective("candidate", "optimizer", beta2=0.999), "FAIL", "beta2 is 0.999"),
    (lambda c: c.effective("candidate", "optimizer", beta2=10**400), "FAIL", "beta2 is 1000"),
    (lambda c: c.effective("candidate", "optimizer", beta2=float("nan")), "FAIL", "beta2 is nan"),
    (lambda c: c.effective("candidate", "optimizer", clip_grad=True), "FAIL", "clip_grad is True"),
    (
        lambda c: c.drop("candidate", lambda r: isinstance(r, Step) and r.step == 50),
        "FAIL",
        "candidate step 50: not recorded",
    ),
    (
        lambda c: c.drop("candidate", lambda r: isinstance(r, Step) and r.step > 150),
        "FAIL",
        "candidate step 151: not recorded (and 49 more)",
    ),
    (lambda c: c.edit_step("candidate", 200, step=201), "FAIL", "step 200: not recorded"),
    (
        lambda c: c.edit(
            "candidate",
            lambda r: isinstance(r, Environment),
            lambda r: dataclasses.replace(r, device="cuda"),
        ),
        "FAIL",
        "candidate ran on cuda, plan cpu",
    ),
    (
        trained("candidate", loaded=["torch", "megatron"]),
        "FAIL",
        "the candidate had megatron, the reference's package, loaded",
    ),
    (
        trained("reference", trained_classes=["transformers.models.x.Y"]),
        "FAIL",
        "the reference trained transformers.models.x.Y",
    ),
]


@pytest.mark.parametrize("row", FAILS)
def test_departures_fail(row: Row) -> None:
    expect(GATE, row)


def interrupted(c: Campaign) -> None:
    c.drop("candidate", lambda r: isinstance(r, Step) and r.step > 150)
    c.runs["candidate"] = {rank: body[:-1] for rank, body in c.runs["candidate"].items()}


def without_rank(c: Campaign) -> None:
    del c.runs["candidate"][1]


UNDECIDED: list[Row] = [
    (lambda c: c.drop_run("reference"), "INCONCLUSIVE", "the run reference left no records"),
    (lambda c: c.drop_run("candidate"), "INCONCLUSIVE", "the run candidate left no records"),
    (lambda c: c.drop_kind("candidate", State), "INCONCLUSIVE", "no digest of its initial weights"),
    (lambda c: c.state_part("candidate", "init", "params", None), "INCONCLUSIVE", "no digest"),
    (interrupted, "INCONCLUSIVE", "candidate stopped after step 150 of 200 and did not complete"),
    (without_rank, "INCONCLUSIVE", "candidate has no records of rank 1"),
    (lambda c: c.drop_kind("candidate", Component), "INCONCLUSIVE", "effective values"),
    (
        lambda c: c.drop_kind("reference", Modules),
        "INCONCLUSIVE",
        "reference rank 0 did not record what it had loaded and trained",
    ),
    (lambda c: c.plan["expected"].pop("effective"), "INCONCLUSIVE", "plan has no effective values"),
    (
        lambda c: c.plan["expected"]["effective"].update(eps=1e-8),
        "INCONCLUSIVE",
        "candidate rank 0: effective values lack eps",
    ),
    (
        lambda c: c.plan["criteria"].update(sha256="0" * 64),
        "INCONCLUSIVE",
        "names criteria v1 0000",
    ),
]


@pytest.mark.parametrize("row", UNDECIDED)
def test_missing_evidence_is_inconclusive(row: Row) -> None:
    expect(GATE, row)


def shorter_repetition(c: Campaign) -> None:
    for phase in ("candidate-again", "reference-again"):
        c.drop(phase, lambda r: isinstance(r, Step) and r.step > 150)


PASSES: list[Row] = [
    (lambda c: None, "PASS", "in each of 200 steps"),
    (lambda c: c.edit_step("candidate", 9, lr=4.5e-05 * (1 + 1e-15)), "PASS", ""),
    (shorter_repetition, "PASS", ""),
    (lambda c: c.effective("candidate", "model", something_else=1), "PASS", ""),
    (lambda c: [s.pop("batch") for s in c.plan["expected"]["steps"]], "PASS", ""),
]


@pytest.mark.parametrize("row", PASSES)
def test_what_follows_the_plan_passes(row: Row) -> None:
    expect(GATE, row)


def test_a_dense_model_on_one_rank_passes() -> None:
    expect(GATE, (lambda c: None, "PASS", ""), Campaign(moe=False, world=1))


def test_every_departure_is_a_check_of_its_own() -> None:
    result = lr_off_by_one(Campaign()).gate(GATE)
    violated = {check.name: check for check in result.checks if check.outcome == "violated"}
    assert set(violated) == {"candidate: learning rate"}
    assert (result.statistic, result.margin, result.n) == (200, 0, 200)


def test_a_later_step_of_a_rank_only() -> None:
    campaign = Campaign()
    campaign.runs["candidate"][1] = [
        r for r in campaign.runs["candidate"][1] if not (isinstance(r, Step) and r.step == 200)
    ]
    expect(GATE, (lambda c: None, "FAIL", "step 200: not recorded by every rank"), campaign)
