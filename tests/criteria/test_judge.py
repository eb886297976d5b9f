"""The judge as a whole: overall rule, claims, purity, and that no single value can be changed
without the verdict noticing."""

from __future__ import annotations

import ast
import dataclasses
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import certify.criteria
from certify.criteria.judge import judge, judge_campaign, overall, verdict_json
from certify.criteria.load import load_criteria
from certify.criteria.outcome import GateResult, as_json
from certify.errors import UsageError
from certify.records import Component, End, Environment, Modules, State, Step, Topology
from tests.criteria.synthetic import Campaign, digest

FOLDER = Path(certify.criteria.__file__).parent
# What describes speed and memory; at tiny it is reported only.
REPORTED_FIELDS = {"step_time_s", "peak_bytes"}


def test_a_correct_campaign_passes_and_says_no_more_than_it_may() -> None:
    verdict = Campaign().judge()
    assert verdict.verdict == "PASS"
    assert verdict.claim == "mechanics verified (tiny, cpu)"
    assert [g.gate for g in verdict.required] == [
        "plan-followed",
        "finite",
        "forward-parity",
        "backward-parity",
        "first-update",
        "loss-curve",
        "resume",
    ]
    assert [g.gate for g in verdict.gates] == [g.id for g in load_criteria().gates]


def test_a_dense_campaign_on_one_rank_passes() -> None:
    assert Campaign(moe=False, world=1).judge().verdict == "PASS"


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ([("PASS", True)], "PASS"),
        ([("PASS", True), ("NOT REQUIRED", False)], "PASS"),
        ([("PASS", True), ("INCONCLUSIVE", True)], "INCONCLUSIVE"),
        ([("PASS", True), ("INCONCLUSIVE", True), ("FAIL", True)], "FAIL"),
        ([("PASS", True), ("FAIL", False)], "FAIL"),
        ([("NOT REQUIRED", False)], "INCONCLUSIVE"),
        ([], "INCONCLUSIVE"),
    ],
)
def test_overall_rule(gates: list[tuple[str, bool]], expected: str) -> None:
    assert overall(tuple(GateResult("g", v, required, "") for v, required in gates)) == expected


@pytest.mark.parametrize("change", ["FAIL", "INCONCLUSIVE"])
def test_only_a_pass_claims(change: str) -> None:
    campaign = Campaign()
    if change == "FAIL":
        campaign.edit_step("candidate", 5, batch=7)
    else:
        campaign.drop_run("resume")
    verdict = campaign.judge()
    assert (verdict.verdict, verdict.claim) == (change, None)


def test_a_computed_gate_that_is_not_required_can_only_fail(monkeypatch: Any) -> None:
    from certify.criteria.gates import GATES
    from certify.criteria.outcome import Check, Finding

    def finding(outcome: str) -> Finding:
        return Finding((Check("c", outcome, 1.0, 2.0, "detail"),), "c", "summary")

    expected = {"ok": "NOT REQUIRED", "undecided": "NOT REQUIRED", "violated": "FAIL"}
    for outcome, verdict in expected.items():
        monkeypatch.setitem(GATES, "reshard", lambda case, o=outcome: finding(o))
        result = Campaign().gate("reshard")
        assert result.verdict == verdict
        assert "on request, and nightly" in result.reason or verdict == "FAIL"
    assert Campaign().judge().verdict == "FAIL"


def test_an_empty_campaign_is_inconclusive() -> None:
    campaign = Campaign()
    campaign.runs.clear()
    verdict = campaign.judge()
    assert verdict.verdict == "INCONCLUSIVE"
    assert all(gate.reason for gate in verdict.gates)


# ---- what the document says


def test_the_document_has_the_published_keys() -> None:
    document = as_json(Campaign().judge())
    assert document["schema"] == "certify.judge/1"
    assert {"verdict", "gates", "scale", "device", "criteria", "claim"} <= set(document)
    keys = {"gate", "verdict", "statistic", "low", "high", "margin", "n", "reason"}
    assert all(keys | {"required", "checks"} <= set(gate) for gate in document["gates"])
    assert all(
        {"name", "value", "limit", "ok"} <= set(c) for g in document["gates"] for c in g["checks"]
    )
    curve = next(g for g in document["gates"] if g["gate"] == "loss-curve")
    assert curve["low"] < curve["statistic"] < curve["high"] < curve["margin"] == 0.002


def test_nan_stays_visible_and_the_text_stays_json() -> None:
    text = verdict_json(Campaign().edit_step("candidate", 5, loss=float("nan")).judge())

    def refuse(name: str) -> None:
        raise AssertionError(name)

    document = json.loads(text, parse_constant=refuse)
    curve = next(g for g in document["gates"] if g["gate"] == "loss-curve")
    assert curve["statistic"] == "nan"


def test_a_seeded_fault_takes_the_claim_even_of_a_pass() -> None:
    campaign = Campaign()
    campaign.plan["inject"] = {"side": "candidate", "name": "lr-off-by-one"}
    document = as_json(campaign.judge())
    assert (document["verdict"], document["claim"]) == ("PASS", None)
    assert document["inject"] == "lr-off-by-one"
    del campaign.plan["inject"]
    document = as_json(campaign.judge())
    assert (document["inject"], document["claim"]) == (None, "mechanics verified (tiny, cpu)")


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        ("candidate", "rank-00001"),
        ("reference", "rank-00000"),
        ("compare", "rank-00000"),
        ("resume", "control-optimizer-dropped-00001"),
    ],
)
def test_a_cut_off_last_line_is_noted(tmp_path: Path, phase: str, name: str) -> None:
    folder = Campaign().write(tmp_path)
    assert judge_campaign(folder).notes == ()
    path = folder / "runs" / f"c1-{phase}" / "records" / f"{name}.jsonl"
    path.write_text(path.read_text() + '{"kind": "sta')
    verdict = judge_campaign(folder)
    note = f"{phase}: the last line of c1-{phase}/records/{name}.jsonl was cut off and is left out"
    assert as_json(verdict)["notes"] == [note]
    assert verdict.verdict == "PASS"


# ---- purity


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    texts = {verdict_json(Campaign().judge()) for _ in range(2)}
    for name in ("here", "elsewhere"):
        texts.add(verdict_json(judge_campaign(Campaign().write(tmp_path / name))))
    assert len(texts) == 1


def test_the_order_of_phases_in_the_plan_does_not_matter() -> None:
    campaign = Campaign().edit_step("candidate", 5, batch=7)
    first = as_json(campaign.judge())
    campaign.plan["runs"] = dict(reversed(campaign.plan["runs"].items()))
    second = as_json(campaign.judge())
    for a, b in zip(first["gates"], second["gates"], strict=True):
        assert (a["verdict"], a["reason"]) == (b["verdict"], b["reason"])


def test_judging_changes_nothing() -> None:
    campaign = Campaign()
    plan, evidence = campaign.parsed(), campaign.evidence()
    before = repr((plan, evidence))
    judge(plan, evidence, load_criteria())
    assert repr((plan, evidence)) == before


def test_the_judge_uses_the_standard_library_only() -> None:
    """And of that neither clock, network, processes nor unseeded chance."""
    forbidden = {"time", "datetime", "socket", "subprocess", "os", "urllib", "secrets", "uuid"}
    for path in FOLDER.rglob("*.py"):
        tops = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                tops |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                tops.add((node.module or "").split(".")[0])
        allowed = set(sys.stdlib_module_names) | {"certify", "tomli", "tomllib"}
        assert tops <= allowed - forbidden, path.name


# ---- mutations


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, str):
        return digest("other") if len(value) == 64 else (3.25).hex()
    return value * 1.5 + 1 if isinstance(value, float) else value + 1


def fields() -> list[tuple[str, str]]:
    """(phase, field of a step), without what follows from something else that is compared: the
    routing of the reference (its comparison), the auxiliary loss (the gradients), the routing of
    a resumed run (its losses, bit for bit)."""
    follows = {
        ("candidate", "aux_loss"),
        ("reference", "aux_loss"),
        ("resume", "aux_loss"),
        ("reference", "routing_sha256"),
        ("resume", "routing_sha256"),
    }
    names = sorted({f.name for f in dataclasses.fields(Step)} - REPORTED_FIELDS)
    found = {(phase, name) for phase in ("candidate", "reference", "resume") for name in names}
    return sorted(found - follows)


@pytest.mark.parametrize(("phase", "name"), fields())
def test_no_field_of_a_step_can_be_changed_unnoticed(phase: str, name: str) -> None:
    step = random.Random(f"{phase}{name}").randrange(101, 121)
    campaign = Campaign()
    value = getattr(campaign.step(phase, step), name)
    campaign.edit(
        phase,
        lambda r: isinstance(r, Step) and r.step == step,
        lambda r: dataclasses.replace(r, **{name: other(value)}),
        ranks=(0,),
    )
    assert campaign.judge().verdict == "FAIL"


@pytest.mark.parametrize("part", sorted(Campaign().state("load", 100).digests))
def test_no_part_of_the_state_can_be_changed_unnoticed(part: str) -> None:
    assert Campaign().state_part("resume", "load", part, digest("x")).judge().verdict == "FAIL"


@pytest.mark.parametrize("phase", ["candidate", "reference", "candidate-again", "resume"])
def test_no_kind_of_evidence_can_be_left_out(phase: str) -> None:
    """Without steps or states of a run, or without the run, nothing passes."""
    for kind in (Step, State, Environment, Topology, Modules, Component, End):
        assert Campaign().drop_kind(phase, kind).judge().verdict != "PASS", kind
    assert Campaign().drop_run(phase).judge().verdict != "PASS"


def test_a_campaign_without_comparison_does_not_pass() -> None:
    verdict = Campaign().drop_run("compare").judge()
    undecided = [g.gate for g in verdict.gates if g.verdict == "INCONCLUSIVE"]
    assert undecided == ["forward-parity", "backward-parity", "first-update"]


# ---- folders


def test_a_folder_that_is_no_campaign(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError) as caught:
            judge_campaign(folder)
        assert "plan.json" in str(caught.value)
        assert "certify judge DIR" in str(caught.value)


def test_attempts_are_shown(tmp_path: Path) -> None:
    folder = Campaign().write(tmp_path)
    (folder / "runs" / "c1-candidate").rename(folder / "runs" / "c1-candidate-a2")
    verdict = judge_campaign(folder)
    assert verdict.attempts == {"candidate": 2}
    assert verdict.verdict == "FAIL", "its headers are of another attempt"
    for path in (folder / "runs" / "c1-candidate-a2" / "records").iterdir():
        path.write_text(path.read_text().replace('"c1-candidate"', '"c1-candidate-a2"'))
    assert judge_campaign(folder).verdict == "PASS"


def test_gates_that_were_run_alone_are_judged_alone_and_claim_nothing() -> None:
    campaign = Campaign()
    campaign.plan["only"] = ["finite"]
    verdict = campaign.judge()
    assert [gate.gate for gate in verdict.gates] == ["finite"]
    assert (verdict.verdict, verdict.claim) == ("PASS", None)
    assert verdict.notes[0] == "only finite was run and judged: the recipe itself was not"
