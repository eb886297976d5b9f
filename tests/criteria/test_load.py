"""The criteria file: strict, complete, and the only place with numbers."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import pytest

import certify.criteria
from certify.criteria.gates import GATES
from certify.criteria.load import (
    PRECISIONS,
    SCALES,
    STAGES,
    Limits,
    limits_of,
    load_criteria,
    parse,
)
from certify.errors import UsageError
from tests.criteria.synthetic import Campaign

FOLDER = Path(certify.criteria.__file__).parent
TEXT = (FOLDER / "v1.toml").read_text(encoding="utf-8")


def limits(
    gate: str, scale: str = "tiny", stage: str = "pretrain", precision: str = "fp32"
) -> Limits:
    return Limits(load_criteria(), gate, scale, stage, precision, moe=True)


def test_the_sha256_is_that_of_the_file() -> None:
    criteria = load_criteria()
    assert criteria.version == "v1"
    assert criteria.sha256 == hashlib.sha256((FOLDER / "v1.toml").read_bytes()).hexdigest()


def test_every_computed_gate_is_published() -> None:
    assert set(GATES) <= {gate.id for gate in load_criteria().gates}


@pytest.mark.parametrize(
    ("gate", "name", "precision", "value"),
    [
        ("forward-parity", "loss-relative", "fp32", 1e-5),
        ("forward-parity", "loss-relative", "bf16", 5e-4),
        ("forward-parity", "error-ratio", "bf16", 2),
        ("forward-parity", "top1-agreement", "fp32", 0.9999),
        ("backward-parity", "relative-error", "fp32", 1e-4),
        ("backward-parity", "global-norm", "bf16", 0.01),
        ("first-update", "cosine", "fp32", 0.999),
        ("loss-curve", "drift", "fp32", 0.002),
        ("loss-curve", "run-level", "fp32", 0.001),
        ("loss-curve", "band-cap", "bf16", 0.02),
        ("resume", "steps", "fp32", 50),
        ("resume", "first-step", "bf16", 1e-4),
        ("throughput", "ratio", "bf16", 0.97),
    ],
)
def test_numbers_are_those_of_the_standard(
    gate: str, name: str, precision: str, value: float
) -> None:
    assert limits(gate, precision=precision).value(name) == value


def test_the_closest_row_applies_and_absence_is_said() -> None:
    assert limits("loss-curve", stage="sft").value("run-level") == 0.002
    assert [limits("loss-curve", s).whole("seeds") for s in SCALES] == [1, 5, 1]
    assert limits("loss-curve", precision="bf16").find("first-steps") is None
    with pytest.raises(KeyError, match="loss-curve/nothing"):
        limits("loss-curve").value("nothing")


def test_names_depend_on_the_kind_of_model() -> None:
    moe, dense = (Campaign(moe=m, steps=1).parsed() for m in (True, False))
    assert "router" in limits_of(load_criteria(), "backward-parity", moe).names("classes")
    assert "dense-mlp" in limits_of(load_criteria(), "first-update", dense).names("classes")
    assert "router" not in limits_of(load_criteria(), "first-update", dense).names("classes")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("stage", STAGES)
def test_core_gates_are_required_at_every_scale(scale: str, stage: str) -> None:
    criteria = load_criteria()
    core = ("plan-followed", "finite", "forward-parity", "backward-parity", "first-update")
    for gate in (*core, "loss-curve", "resume"):
        assert criteria.requirement(gate, scale, stage).status == "required", gate
    assert criteria.requirement("neutrality", scale, stage).status == "reported"


def test_requirements_by_scale_and_stage() -> None:
    criteria = load_criteria()

    def status(gate: str, stage: str = "pretrain") -> list[str]:
        return [criteria.requirement(gate, scale, stage).status for scale in SCALES]

    assert status("sft-extras") == ["not-required", "on-request", "not-required"]
    assert status("sft-extras", "sft") == ["required", "required", "not-required"]
    assert status("reshard") == ["on-request", "required", "required"]
    assert status("throughput") == ["reported", "required", "required"]
    assert status("environment") == ["reported", "required", "required"]
    assert limits("forward-parity", "full").waived("oracle")
    assert not limits("forward-parity", "reduced").waived("oracle")


def test_every_case_finds_the_rows_that_gates_ask_for() -> None:
    """A KeyError would be an internal error in front of a user: none for any kind of plan."""
    for scale in SCALES:
        for stage in STAGES:
            for precision in PRECISIONS:
                campaign = Campaign(steps=1)
                campaign.plan |= {"scale": scale, "stage": stage, "precision": precision}
                assert campaign.judge().verdict != "PASS"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('schema = "certify.criteria/1"', 'schema = "other"', "schema 'other'"),
        ('unit = "cosine"', 'unit = "cosine"\nextra = 1', "unknown key 'extra'"),
        ('unit = "cosine"', 'unit = ""', "source or unit"),
        ("value = 0.999\n", 'value = "high"\n', "'high'"),
        ("value = 0.999\n", "", "missing key 'value'"),
        ('gate = "first-update"\nname = "cosine"', 'gate = "x"\nname = "cosine"', "no gate"),
        ('precision = "bf16"\nvalue = 5e-4', "value = 5e-4", None),
        ('precision = "bf16"\nvalue = 5e-4', 'precision = "fp32"\nvalue = 5e-4', "listed twice"),
        ('precision = "bf16"\nvalue = 5e-4', 'scale = "tiny"\nvalue = 5e-4', "none is closer"),
        ('precision = "bf16"\nvalue = 5e-4', 'precision = "fp8"\nvalue = 5e-4', "'fp8'"),
        ('scale = "reduced"\nsays', 'scale = "tiny"\nsays', "every scale once"),
        ('id = "finite"', 'id = "resume"', "listed twice"),
        ('reason = "as top', 'reason = "" # "as top', None),
        ("= [", "= [[", "not TOML"),
    ],
)
def test_a_changed_file_is_refused_or_has_another_sha256(
    old: str, new: str, message: str | None
) -> None:
    text = TEXT.replace(old, new, 1)
    if message is None:
        if text != TEXT:
            assert parse(text.encode(), "x.toml").sha256 != load_criteria().sha256
        return
    assert text != TEXT
    with pytest.raises(UsageError) as caught:
        parse(text.encode(), "x.toml")
    assert message in str(caught.value)
    assert "x.toml" in str(caught.value)


def test_a_row_must_give_its_reason() -> None:
    row = next(t for t in load_criteria().thresholds if t.name == "cosine")
    with pytest.raises(UsageError, match="no reason"):
        parse(TEXT.replace(row.reason, " ").encode(), "x.toml")


def test_a_gate_needs_one_requirement_for_each_case() -> None:
    line = next(s for s in TEXT.splitlines() if s.startswith('    { scale = "full"'))
    for text in (TEXT.replace(line + "\n", "", 1), TEXT.replace(line, line + "\n" + line, 1)):
        with pytest.raises(UsageError, match="requirements for full"):
            parse(text.encode(), "x.toml")
    with pytest.raises(UsageError, match="status 'maybe'"):
        parse(TEXT.replace('status = "required"', 'status = "maybe"', 1).encode(), "x.toml")


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown criteria 'v0'"):
        load_criteria("v0")


@pytest.mark.parametrize("path", sorted((FOLDER / "gates").glob("*.py")), ids=lambda p: p.stem)
def test_no_threshold_is_written_in_code(path: Path) -> None:
    numbers = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    }
    # 12 and 64: characters of a digest that are shown.
    assert numbers <= {0, 1, 2, 12, 64}
