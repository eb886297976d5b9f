"""Which fault is tried where, and what the table says of the outcomes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from certify.cli import main
from certify.criteria.judge import judge_gate
from certify.criteria.load import load_criteria
from certify.criteria.plan import parse_plan
from certify.records import Step
from certify.selftest.cases import read_cases
from certify.selftest.outcome import BITWISE, Outcome, first_steps, usual_rules
from certify.selftest.run import chosen
from certify.selftest.table import document, text
from tests.criteria.synthetic import Campaign

FAULT: dict[str, Any] = {
    "side": "candidate",
    "gates": ["resume"],
    "backends": ["fsdp2", "mcore"],
    "needs_experts": False,
    "needs_tensor_parallel": False,
    "needs": "",
    "needs_peers": False,
    "acts_on": "step",
}


def cases_of(**changes: Any) -> list[str]:
    _, cases = read_cases()
    found = chosen({"x": {**FAULT, **changes}}, cases, quick=False)
    return [case.name for _, case in found]


def test_a_fault_is_tried_where_it_changes_something() -> None:
    assert cases_of() == ["moe", "dense", "masked", "bias", "alone"]
    assert cases_of(needs_experts=True) == ["moe", "bias", "alone"]
    assert cases_of(needs_experts=True, needs_peers=True) == ["moe", "bias"]
    assert cases_of(needs="tied") == ["dense"]
    assert cases_of(needs="mask") == ["masked"]
    assert cases_of(needs="router-bias") == ["bias"]
    # The routers of the case with a bias balance without an auxiliary loss.
    assert cases_of(needs="aux-loss", needs_experts=True) == ["moe", "alone"]
    assert cases_of(needs_tensor_parallel=True) == []
    # Of the reference's side: where Megatron-Core trains it.
    assert cases_of(side="reference", backends=["mcore"]) == ["moe", "dense", "masked", "alone"]
    _, cases = read_cases()
    assert [c.name for _, c in chosen({"x": FAULT}, cases, quick=True)] == ["moe"]


def outcome(**changes: Any) -> Outcome:
    usual = {"2% on 15 steps": False, "5% approximate": False, BITWISE: True}
    base = Outcome("f", "moe", 1, ("resume",), ("resume", "reshard"), usual, None, {})
    return dataclasses.replace(base, **changes)


def test_caught_means_by_a_gate_that_should_see_it() -> None:
    assert outcome().is_right
    assert not outcome(caught=("loss-curve",)).is_right
    assert not outcome(caught=()).is_right
    assert outcome(fault=None, verdict="PASS").is_right
    assert not outcome(fault=None, verdict="INCONCLUSIVE").is_right


def test_the_release_rule_is_19_of_20_and_every_unharmed_one() -> None:
    missed = outcome(caught=())
    twenty = [outcome(seed=n) for n in range(19)] + [missed]
    assert document(twenty, {})["verdict"] == "PASS"
    assert document([*twenty[1:], missed], {})["verdict"] == "FAIL"
    passing = [outcome(fault=None, verdict="PASS", seed=n) for n in range(19)]
    failing = outcome(fault=None, verdict="FAIL", reasons={"finite": "step 3 is NaN"})
    body = document([*passing, failing], {})
    assert body["verdict"] == "FAIL"
    assert "step 3 is NaN" in text(body)
    assert "| none (A/A) | moe | 19/20 |" in text(body)


def test_the_usual_rules() -> None:
    campaign = Campaign()
    base = {s: campaign.step("reference", s) for s in range(1, 30)}

    def noticed(change: dict[int, float]) -> list[str]:
        found = {
            s: dataclasses.replace(r, loss=r.loss * change.get(s, 1.0)) for s, r in base.items()
        }
        return [rule for rule, so in usual_rules(found, base).items() if so]

    assert noticed({}) == []
    assert noticed({3: 1.021}) == ["2% on 15 steps"]
    assert noticed({20: 1.021}) == []
    assert noticed({20: 0.94}) == ["5% approximate"]
    other = {**base, 1: dataclasses.replace(base[1], loss_hex="0x1p+0")}
    assert usual_rules(other, base)[BITWISE] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seeds", "0"), "0 seeds"),
        (("--faults", "lr-off-by-on"), "unknown fault 'lr-off-by-on'"),
    ],
)
def test_bad_input_is_one_clear_error(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["selftest", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_holds_something_is_refused(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("x")
    assert main(["selftest", "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err


def test_a_short_run_departs_from_its_plan_only_by_its_fault() -> None:
    """Else plan-followed would see steps that are missing in every trial, whatever the fault."""
    campaign = Campaign()
    for phase in ("candidate-again", "reference-again", "resume"):
        campaign.drop_run(phase)
    campaign.plan["runs"] = {p: campaign.plan["runs"][p] for p in ("candidate", "reference")}
    campaign.drop("candidate", lambda r: isinstance(r, Step) and r.step > 15)

    def verdict(cut: bool) -> str:
        plan = dict(campaign.plan)
        evidence = campaign.evidence()
        if cut:
            expected = plan["expected"]
            plan["expected"] = {**expected, "steps": expected["steps"][:15]}
            evidence = first_steps(evidence, 15)
        parsed = parse_plan(json.loads(json.dumps(plan)), "plan.json")
        return judge_gate("plan-followed", parsed, evidence, load_criteria()).verdict

    assert (verdict(cut=False), verdict(cut=True)) == ("FAIL", "PASS")
    campaign.edit_step("candidate", 9, lr=1.0)
    assert verdict(cut=True) == "FAIL"
