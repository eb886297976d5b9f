"""One real campaign of the product's main job: interrupted, continued, judged, stored and shown;
then seeded faults against the same cached reference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from certify.campaign.processes import descendants
from certify.records import Collective, Component, End, Modules, RecordFile, State, read_run

pytestmark = [pytest.mark.torch, pytest.mark.campaign]
ROOT = Path(__file__).resolve().parent.parent
CERTIFY = (sys.executable, "-m", "certify")
RECIPE = ("run", "qwen3-235b", "--backend", "fsdp2")


def environment() -> dict[str, str]:
    # A proxy that refuses everything: a run that reached for a network would fail here.
    blocked = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    return {**os.environ, **blocked, "PYTHONPATH": str(ROOT)}


def certify(home: Path, *words: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*CERTIFY, *words, *(("--home", str(home)) if words[0] == "run" else ())),
        capture_output=True,
        text=True,
        env=environment(),
        cwd=home,
        timeout=timeout,
        check=False,
    )


def campaign_folder(home: Path) -> Path:
    return max((home / "campaigns").iterdir(), key=lambda p: p.stat().st_mtime)


def wait_until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def interrupted(home: Path) -> Path:
    """Ctrl-C while the candidate trains: returns the campaign's folder."""
    with subprocess.Popen(
        (*CERTIFY, *RECIPE, "--home", str(home)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=home,
    ) as process:

        def candidate_trains() -> bool:
            assert process.poll() is None, process.communicate()[1]
            found = list((home / "campaigns").glob("*/runs/*-candidate/records/rank-00000.jsonl"))
            return bool(found) and '"kind": "step"' in found[0].read_text()

        wait_until(candidate_trains, 300)
        children = descendants(process.pid)
        assert len(children) >= 3  # the agent and two ranks
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == 130, talk
    assert "the same command continues it: certify run qwen3-235b --backend fsdp2" in talk
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    return campaign_folder(home)


@pytest.fixture(scope="module")
def finished(home: Path, interrupted: Path) -> tuple[Path, dict[str, Any]]:
    """The same command again: returns the campaign's folder and the JSON document."""
    state = json.loads((interrupted / "campaign.json").read_text())
    assert state["status"] == "interrupted"
    assert {p["name"]: p["status"] for p in state["phases"]}["candidate"] == "interrupted"
    done = certify(home, *RECIPE, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "continuing" in done.stderr
    return interrupted, json.loads(done.stdout)


def run_folder(campaign: Path, phase: str) -> Path:
    state = json.loads((campaign / "campaign.json").read_text())
    return campaign / "runs" / next(p["run_id"] for p in state["phases"] if p["name"] == phase)


def rank_files(campaign: Path, phase: str) -> list[RecordFile]:
    return read_run(run_folder(campaign, phase))


def gates(document: dict[str, Any]) -> dict[str, str]:
    return {gate["gate"]: gate["verdict"] for gate in document["gates"]}


def test_passes_at_scale_tiny(finished: tuple[Path, dict[str, Any]]) -> None:
    campaign, document = finished
    assert document["schema"] == "certify.run/1"
    assert document["verdict"] == "PASS"
    assert (document["scale"], document["device"]) == ("tiny", "cpu")
    verdicts = gates(document)
    for name in (
        "plan-followed",
        "finite",
        "forward-parity",
        "backward-parity",
        "first-update",
        "loss-curve",
        "resume",
    ):
        assert verdicts[name] == "PASS", name
    assert verdicts["worker-loss"] == "NOT REQUIRED"
    assert json.loads((campaign / "verdict.json").read_text())["verdict"] == "PASS"


def test_trained_what_it_claims(finished: tuple[Path, dict[str, Any]]) -> None:
    campaign, _ = finished
    candidate, reference = rank_files(campaign, "candidate"), rank_files(campaign, "reference")
    assert [f.header.world_size for f in candidate] == [2, 2]
    assert [f.header.world_size for f in reference] == [1]
    parts = {c.part: c for c in candidate[0].of(Component)}
    assert parts["model"].class_name == "Qwen3MoeForCausalLM"
    assert parts["model"].package == "transformers"
    assert (parts["optimizer"].package, parts["optimizer"].class_name) == ("torch", "AdamW")
    theirs = {c.part: c for c in reference[0].of(Component)}
    assert theirs["model"].class_name == "GPTModel"
    assert {theirs[p].package for p in ("model", "optimizer", "scheduler")} == {"megatron"}
    for file in candidate:
        modules = file.last(Modules)
        assert modules is not None
        assert "megatron" not in modules.loaded
        assert any(c.endswith("Qwen3MoeExperts") for c in modules.trained_classes)
    modules = reference[0].last(Modules)
    assert modules is not None
    assert not any("transformers.models" in c for c in modules.trained_classes)
    for files in (candidate, reference):
        steps = files[0].steps()
        assert sorted(steps) == list(range(1, 201))
        assert all((s.aux_loss or 0) > 0 for s in steps.values())
        assert steps[200].loss < steps[1].loss - 1.0
        assert float.fromhex(steps[7].loss_hex) == steps[7].loss


def test_the_collectives_were_tested_first(finished: tuple[Path, dict[str, Any]]) -> None:
    campaign, _ = finished
    for file in rank_files(campaign, "candidate"):
        tested = file.of(Collective)
        ops = {c.op for c in tested}
        assert {"all_reduce_sum", "reduce_scatter_sum", "all_gather", "all_to_all_uneven"} <= ops
        assert all(c.ok for c in tested)
        kinds = [type(r) for r in file.records]
        assert kinds.index(Collective) < kinds.index(State)


def test_the_interrupted_attempt_is_kept_and_marked(finished: tuple[Path, dict[str, Any]]) -> None:
    campaign, _ = finished
    first = next(p for p in (campaign / "runs").iterdir() if p.name.endswith("-candidate"))
    assert (
        read_run(first)[0].last(End) is None or read_run(first)[0].last(End).status != "completed"
    )
    assert run_folder(campaign, "candidate").name.endswith("-candidate-a2")


def test_the_store_knows_it(home: Path, finished: tuple[Path, dict[str, Any]]) -> None:
    from certify.store import open_store

    with open_store(home=home) as store:
        campaigns = store.campaigns()
        row = next(c for c in campaigns if c.folder == str(finished[0]))
        assert (row.status, row.verdict) == ("completed", "PASS")
        runs = {r.id: r.status for r in store.runs(row.id)}
        assert runs[f"{row.id}-candidate"] == "aborted"
        assert runs[f"{row.id}-candidate-a2"] == "completed"
        stored = {g.gate: g.verdict for g in store.gates(row.id)}
    assert stored == gates(finished[1])


def test_the_page_is_whole(finished: tuple[Path, dict[str, Any]]) -> None:
    page = finished[0] / "page" / "index.html"
    text = page.read_text(encoding="utf-8")
    assert "qwen3-235b-a22b-4k-fsdp2" in text
    assert "mechanics verified (tiny, cpu)" in text
    assert "http-equiv" in text
    assert list(page.parent.rglob("*.svg"))


def test_judging_again_gives_the_same_bytes(home: Path, finished: tuple[Path, Any]) -> None:
    done = certify(home, "judge", str(finished[0]), "--json")
    assert done.returncode == 0, done.stderr
    written = json.loads((finished[0] / "verdict.json").read_text())
    assert json.loads(done.stdout) == written


@pytest.mark.parametrize(
    ("fault", "gate", "phases"),
    [
        ("lr-off-by-one", "plan-followed", "candidate,compare,judge"),
        ("aux-loss-zero", "backward-parity", "candidate,compare,judge"),
        ("expert-grads-scaled", "backward-parity", "candidate,compare,judge"),
        ("reference-weight-1pct", "forward-parity", "candidate,compare,judge"),
    ],
)
def test_a_seeded_fault_fails_at_its_gate(
    home: Path, finished: tuple[Path, Any], fault: str, gate: str, phases: str
) -> None:
    done = certify(home, *RECIPE, "--inject", fault, "--phases", phases, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "FAIL"
    assert gates(document)[gate] == "FAIL"


def test_wrong_collectives_stop_the_run(home: Path, finished: tuple[Path, Any]) -> None:
    done = certify(home, *RECIPE, "--inject", "collective-wrong", "--phases", "candidate", "--json")
    assert done.returncode == 4, done.stderr
    error = json.loads(done.stdout)["error"]
    assert "reduce" in error["what"]
    folder = campaign_folder(home)
    assert not rank_files(folder, "candidate")[0].steps()
