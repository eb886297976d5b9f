"""Recorded trajectories: whole, comparable, and never more than their inputs allow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certify.cli import main
from certify.errors import UsageError
from certify.records import read_file
from certify.reference import recorded
from certify.reference.verify import Compared, compare

NAMES = sorted(folder.name for folder in recorded.shipped_folder().iterdir() if folder.is_dir())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(recorded.shipped_folder() / NAMES[0], folder)
    return folder


def test_dense_and_moe_are_shipped_and_small() -> None:
    found = [recorded.read(recorded.shipped_folder() / name) for name in NAMES]
    assert {one.read(recorded.PLAN)["moe"] for one in found} == {True, False}
    for one in found:
        assert sum(p.stat().st_size for p in one.folder.iterdir()) < 300_000
        assert (one.kind, one.reference, one.steps) == ("run", "mcore", 200)
        file = read_file(one.folder / recorded.RECORDS)
        assert sorted(file.steps()) == list(range(1, 201))
        assert one.read(recorded.ENVIRONMENT)["packages"]["megatron-core"].startswith("0.16.")
        planned = one.read(recorded.PLAN)["expected"]["steps"]
        assert [s["tokens_sha256"] for s in planned] == [
            s.tokens_sha256 for _, s in sorted(file.steps().items())
        ]


@pytest.mark.parametrize("name", [recorded.RECORDS, recorded.PLAN, recorded.ENVIRONMENT])
def test_a_changed_file_is_found(copy: Path, name: str) -> None:
    text = (copy / name).read_text()
    (copy / name).write_text(text.replace("1", "2", 1))
    with pytest.raises(UsageError, match=f"{name} is not what was recorded"):
        recorded.read(copy)
    (copy / name).unlink()
    with pytest.raises(UsageError, match=f"cannot read {name}"):
        recorded.read(copy)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "x/1"}, "no recorded reference"),
        ({"kind": "other"}, "lacks a key"),
        ({"recipe": 3}, "lacks a key"),
        ({"files": {}}, "too few files"),
        ({"steps": 0}, "does not count steps"),
        ({"steps": "200"}, "does not count steps"),
    ],
)
def test_a_malformed_manifest_is_refused(copy: Path, change: dict[str, Any], said: str) -> None:
    manifest = json.loads((copy / recorded.MANIFEST).read_text())
    (copy / recorded.MANIFEST).write_text(json.dumps({**manifest, **change}))
    with pytest.raises(UsageError, match=said):
        recorded.read(copy)


def test_a_manifest_reaches_no_file_outside(copy: Path) -> None:
    (copy.parent / "secret").write_text("x")
    manifest = json.loads((copy / recorded.MANIFEST).read_text())
    manifest["files"]["../secret"] = {"sha256": "", "bytes": 1}
    (copy / recorded.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"lists '\.\./secret'"):
        recorded.read(copy)


def test_an_unknown_name_lists_near_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        recorded.find("qwen3-32b-fsdp2", tmp_path)
    assert "qwen3-32b-4k-fsdp2" in str(refused.value.__dict__)


def trained_again(
    tmp_path: Path,
    name: str = NAMES[0],
    plan: Callable[[dict[str, Any]], None] = lambda p: None,
    step: Callable[[dict[str, Any]], None] = lambda s: None,
    environment: Callable[[dict[str, Any]], None] = lambda e: None,
) -> Compared:
    """The recorded run compared with itself, changed as a new run might have been."""
    known = recorded.read(recorded.shipped_folder() / name)
    body = known.read(recorded.PLAN)
    plan(body)
    lines = []
    for line in (known.folder / recorded.RECORDS).read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "step":
            step(record)
            record["loss_hex"] = float(record["loss"]).hex()
            record["grad_norm_hex"] = float(record["grad_norm"]).hex()
        if record["kind"] == "environment":
            environment(record)
        lines.append(json.dumps(record))
    path = tmp_path / "rank-00000.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return compare(known, body, read_file(path))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_run_agrees_in_every_bit(tmp_path: Path, name: str) -> None:
    found = trained_again(tmp_path, name)
    assert (found.finding.verdict, found.equal_steps, found.steps) == ("PASS", 200, 200)
    assert found.same_environment


def test_rounding_of_other_versions_passes_and_is_counted(tmp_path: Path) -> None:
    def rounded(step: dict[str, Any]) -> None:
        if step["step"] > 3:
            step["loss"] *= 1 + 1e-7
            step["grad_norm"] *= 1 + 1e-6

    def newer(environment: dict[str, Any]) -> None:
        environment["packages"]["torch"] = "9.9.0"

    found = trained_again(tmp_path, step=rounded, environment=newer)
    assert (found.finding.verdict, found.equal_steps) == ("PASS", 3)
    assert not found.same_environment


def drifts(step: dict[str, Any]) -> None:
    step["loss"] *= 1.003


def clipped(step: dict[str, Any]) -> None:
    step["grad_norm"] *= 0.9


def late(step: dict[str, Any]) -> None:
    step["lr"] *= 1.01


@pytest.mark.parametrize(
    ("change", "check"), [(drifts, "drift"), (clipped, "gradient norm"), (late, "inputs")]
)
def test_another_trajectory_fails(tmp_path: Path, change: Any, check: str) -> None:
    found = trained_again(tmp_path, step=change)
    assert found.finding.verdict == "FAIL"
    assert check in {c.name for c in found.finding.checks if c.outcome == "violated"}


def test_other_weights_are_no_repetition(tmp_path: Path) -> None:
    def other(plan: dict[str, Any]) -> None:
        plan["expected"]["weights_digest"] = "0" * 64

    found = trained_again(tmp_path, plan=other)
    assert found.finding.verdict == "FAIL"
    assert "the initial weights are others" in found.finding.checks[0].detail


def test_the_command_lists_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(tmp_path), "--json"]
    assert main(["reference", "list", *home]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["recorded"]] == NAMES
    assert main(["reference", "verify", NAMES[0], "--no-run", *home]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "certify.reference/1"
    assert main(["reference", "verify", "absent", *home]) == 2
    assert main(["reference", "record", str(tmp_path), *home]) == 2


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_reference_can_be_trained_again(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reference", "verify", name, "--home", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "PASS"
    assert not any(tmp_path.iterdir())
