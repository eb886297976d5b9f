"""A run of ours against a trainer's state: every step counts; what is missing proves nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certify.cli import main
from certify.cli.reference_live import add_actions, tuning_of
from certify.errors import UsageError
from certify.records import Header, Record, RecordFile
from certify.reference import live, llamafactory
from tests.criteria.synthetic import Campaign

STEPS = 64


def ours(rank: int = 0) -> RecordFile:
    campaign = Campaign()
    header = Header("run", "candidate", "fsdp2", rank, 2, 7000 + rank, 5e9)
    body: list[Record] = [header]
    body += [campaign.step("candidate", n) for n in range(1, STEPS + 1)]
    return RecordFile(Path(f"rank-{rank:05d}.jsonl"), header, tuple(body), False)


def state(steps: int = STEPS, change: Callable[[dict[str, Any]], Any] = id) -> dict[str, Any]:
    entries = [
        {
            "step": s.step,
            "loss": s.loss,
            "grad_norm": s.grad_norm,
            "learning_rate": s.lr,
            "epoch": 0,
        }
        for _, s in sorted(ours().steps().items())
    ]
    entries = entries[:steps]
    for entry in entries:
        change(entry)
    entries.append({"step": steps, "train_loss": 3.0, "train_runtime": 1.0})
    return {"log_history": entries, "max_steps": steps}


def judged(tmp_path: Path, body: dict[str, Any], *files: RecordFile) -> Any:
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(body))
    return live.compare(files or (ours(0), ours(1)), llamafactory.read_state(path))


def scaled(key: str, by: float, only: int = 40) -> Callable[[dict[str, Any]], Any]:
    return lambda e: e.update({key: e[key] * by}) if e["step"] == only else None


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda e: e.pop(key) if e["step"] == 40 else None


ROWS: list[tuple[Callable[[dict[str, Any]], Any], int, str, str]] = [
    (id, STEPS, "PASS", "64 steps agree"),
    (scaled("loss", 1 + 5e-6), STEPS, "PASS", "64 steps agree"),
    (
        scaled("loss", 1 + 2e-5),
        STEPS,
        "FAIL",
        "loss of rank 0 differs by at most 2e-05, in step 40",
    ),
    (scaled("loss", float("nan")), STEPS, "FAIL", "in step 40"),
    (scaled("grad_norm", 1 + 2e-5), STEPS, "FAIL", "grad-norm of rank 0 differs"),
    (scaled("learning_rate", 1 + 1e-6), STEPS, "FAIL", "lr of rank 0 differs"),
    (without("grad_norm"), STEPS, "INCONCLUSIVE", "63 of 64 steps have it"),
    (id, 63, "FAIL", "step 64 is not in the reference"),
]


@pytest.mark.parametrize("row", ROWS)
def test_table(row: tuple[Callable[[dict[str, Any]], Any], int, str, str], tmp_path: Path) -> None:
    change, steps, verdict, reason = row
    finding = judged(tmp_path, state(steps, change))
    assert finding.verdict == verdict
    assert reason in live.reason(finding)


def test_one_rank_that_departs_is_seen(tmp_path: Path) -> None:
    wrong = ours(1)
    records = tuple(
        dataclasses.replace(r, grad_norm=r.grad_norm * 1.1) if getattr(r, "step", 0) == 9 else r
        for r in wrong.records
    )
    finding = judged(tmp_path, state(), ours(0), dataclasses.replace(wrong, records=records))
    assert finding.verdict == "FAIL"
    assert "grad-norm of rank 1" in live.reason(finding)


def test_a_step_that_was_not_trained(tmp_path: Path) -> None:
    file = ours()
    short = dataclasses.replace(file, records=file.records[:-1])
    assert "step 64 was not trained" in live.reason(judged(tmp_path, state(), short))


def test_few_steps_are_no_evidence(tmp_path: Path) -> None:
    file = ours()
    few = dataclasses.replace(file, records=file.records[:21])
    finding = judged(tmp_path, state(20), few)
    assert (finding.verdict, live.reason(finding)) == (
        "INCONCLUSIVE", "20 steps; at least 60 are evidence",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "no log_history"),
        ({"log_history": []}, "no step has a loss"),
        ({"log_history": [{"loss": 1.0}]}, "an entry without step or loss"),
        ({"log_history": [{"loss": "x", "step": 1}]}, "an entry without step or loss"),
    ],
)
def test_what_is_no_state(body: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(body))
    with pytest.raises(UsageError, match=said):
        llamafactory.read_state(path)


def words(*settings: str) -> Any:
    import argparse

    parser = argparse.ArgumentParser()
    add_actions(parser.add_subparsers(dest="action"))
    fixed = ["train", "llamafactory", "--model", "m", "--data", "d.json", "--out", "o"]
    return tuning_of(parser.parse_args([*fixed, "--set", *settings]))


def test_settings_are_typed() -> None:
    found = words("cutoff=96", "lr=1e-3", "neat_packing=true", "columns.prompt=q", "template=qwen")
    assert (found.cutoff, found.lr, found.neat_packing, found.template) == (96, 1e-3, True, "qwen")
    body = llamafactory.configuration(found, Path("out"))
    assert (body["cutoff_len"], body["neat_packing"]) == (96, True)
    assert "ddp_backend" not in body
    assert dict(found.columns) == {"prompt": "q"}
    assert llamafactory.configuration(words("world_size=2"), Path("out"))["ddp_backend"] == "gloo"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("cutof=3", "did you mean cutoff"),
        ("packing=1", "true or false"),
        ("cutoff=a", "a whole number"),
        ("cutoff", "KEY=VALUE"),
        ("formatting=csv", "alpaca or sharegpt"),
    ],
)
def test_wrong_settings(
    word: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "d.json").write_text("[]")
    fixed = ["reference", "train", "llamafactory", "--model", str(tmp_path / "model")]
    fixed += ["--data", str(tmp_path / "d.json"), "--out", str(tmp_path / "o"), "--python", "none"]
    assert main([*fixed, "--set", word]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
