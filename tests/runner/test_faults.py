"""The table of seeded faults, and how a run finds its own."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

from certify.errors import UsageError
from runner import faults
from runner.callpoints import Fault
from tests.runner.tiny import ROOT, Prepared

pytestmark = pytest.mark.torch


def test_every_fault_says_what_it_does_and_who_should_see_it() -> None:
    for name, fault in faults.FAULTS.items():
        assert fault.name == name
        assert len(fault.summary) > 20
        assert fault.side in ("candidate", "reference")
        assert fault.gates
        assert set(fault.gates) <= set(faults.GATES)


def test_the_gates_are_those_that_can_see_it() -> None:
    gates = {name: fault.gates for name, fault in faults.FAULTS.items()}
    # Seen in the count of decayed parameters; the first update barely changes.
    assert gates["norm-weights-decayed"] == ("plan-followed",)
    # Injected after the initial weights were recorded.
    assert gates["reference-weight-1pct"] == ("forward-parity",)
    for name in ("adam-moments-not-restored", "data-cursor-not-restored", "rng-not-restored"):
        assert gates[name] == ("resume",)


def test_every_fault_of_the_candidate_changes_a_call_point() -> None:
    points = {name for name, value in vars(Fault).items() if inspect.isfunction(value)}
    for fault in faults.FAULTS.values():
        own = {name for cls in type(fault).__mro__[:-2] for name in vars(cls)}
        assert bool(own & points) == (fault.side == "candidate")


def test_a_run_finds_its_fault_or_is_told(prepared: Prepared) -> None:
    assert faults.of_spec(prepared.spec("x")) is faults.NO_FAULT
    assert faults.of_spec(prepared.spec("x", fault="aux-loss-zero")).aux_coefficient(3.0) == 0.0
    with pytest.raises(UsageError) as refused:
        faults.of_spec(prepared.spec("x", fault="lr-off-by-on"))
    assert "'lr-off-by-one'?" in str(refused.value)
    with pytest.raises(UsageError, match="the fsdp2 backend does not carry out"):
        faults.of_spec(prepared.spec("x", fault="tensor-parallel-unset"))
    with pytest.raises(UsageError, match="one of the reference side"):
        faults.of_spec(prepared.spec("x", fault="reference-weight-1pct"))


def test_listing_needs_no_torch() -> None:
    """What `certify run --inject` asks for."""
    code = (
        "import runpy, sys; sys.modules['torch'] = None\n"
        "runpy.run_module('runner.faults', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    table = json.loads(done.stdout)
    assert table["lr-off-by-one"]["side"] == "candidate"
    assert sorted(table) == sorted(faults.FAULTS)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"rope_theta": 1e6}, {"rope_theta": 1e4}),
        ({}, {"rope_theta": 100.0}),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
            {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3}},
        ),
    ],
)
def test_wrong_rope_base_finds_the_base(config: dict, wanted: dict) -> None:
    before = json.dumps(config)
    assert faults.FAULTS["wrong-rope-base"].model_config(config) == wanted
    assert json.dumps(config) == before
