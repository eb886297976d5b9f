"""Choosing phases: what is asked for and all it needs, in order."""

from __future__ import annotations

import pytest

from certify.campaign.phases import PHASES, choose, judged_alone, requested_gates, waves
from certify.errors import UsageError


def test_all_by_default() -> None:
    usual = choose(None)
    assert [n for n in PHASES if n not in usual] == [n for n, p in PHASES.items() if p.gate]
    assert {"compare", "resume", "judge", "report"} <= set(usual)


def test_a_scale_that_requires_a_gate_has_its_phase() -> None:
    assert "reshard" in choose(None, {"reshard"})


def test_gates_asked_for_alone_are_judged_alone() -> None:
    phases = choose(["reshard"])
    assert phases == ("prepare", "candidate", "reshard", "judge")
    assert requested_gates(phases) == judged_alone(phases) == ("reshard",)
    whole = choose(["judge", "reshard"])
    assert {"compare", "resume"} & set(whole) == {"compare"}
    assert (requested_gates(whole), judged_alone(whole)) == (("reshard",), ())
    assert judged_alone(choose(None)) == ()


def test_needs_are_added_in_order() -> None:
    assert choose(["compare"]) == ("prepare", "reference", "candidate", "compare")
    assert choose(["resume"]) == ("prepare", "candidate", "resume")


def test_unknown_phase_names_a_near_one() -> None:
    with pytest.raises(UsageError) as caught:
        choose(["canddiate"])
    assert caught.value.hint == "did you mean candidate?"


def test_reference_and_its_repetition_run_side_by_side() -> None:
    assert waves(choose(None))[1] == ("reference", "reference-again")


def test_every_need_lies_in_an_earlier_wave() -> None:
    for phase in PHASES.values():
        for need in phase.needs:
            assert PHASES[need].wave < phase.wave
