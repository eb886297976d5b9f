"""Campaign folders that pass, keys, and the command line's answer."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from certify.criteria.judge import judge_campaign, verdict_json
from certify.evidence.bundle import fix_plan, write_bundle
from tests.conftest import require
from tests.criteria.synthetic import Campaign

FIXED_UNIX_S = 1_796_076_000.25


def write_campaign(folder: Path, campaign: Campaign, key: Path | None = None) -> Path:
    """A judged campaign folder with the statement of its plan."""
    campaign.write(folder)
    fix_plan(folder, "c1", FIXED_UNIX_S, key)
    (folder / "verdict.json").write_text(verdict_json(judge_campaign(folder)), encoding="utf-8")
    return folder


def tiny_campaign() -> Campaign:
    """As few records as a verdict can be given on, so that a bundle is small."""
    campaign = Campaign(moe=False, world=1, steps=2)
    campaign.runs = {phase: campaign.runs[phase] for phase in ("candidate", "reference")}
    campaign.controls = {}
    for phase, ranks in campaign.runs.items():
        kept = [r for r in ranks[0] if r.kind in ("header", "step", "end")]
        campaign.runs[phase] = {0: [dataclasses.replace(r) for r in kept]}
    campaign.plan["runs"] = {phase: f"c1-{phase}" for phase in campaign.runs}
    campaign.plan["expected"]["effective"] = {}
    return campaign


def make_key(folder: Path, name: str) -> Path:
    require("ssh-keygen", shutil.which("ssh-keygen") is not None, "ssh-keygen is not installed")
    path = folder / name
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
    subprocess.run(words, check=True)
    return path


def allow(folder: Path, key: Path, principal: str) -> Path:
    """A file of allowed signers with one key."""
    kind, public = key.with_suffix(".pub").read_text().split()[:2]
    path = folder / f"allowed-{principal}"
    path.write_text(f'{principal} namespaces="ascend-certify" {kind} {public}\n')
    return path


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("key"), "ci")


@pytest.fixture(scope="session")
def allowed(key: Path) -> Path:
    return allow(key.parent, key, "ci@example.org")


@pytest.fixture(scope="session")
def passing(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    """A folder whose campaign passes, with its signed bundle. Not to be changed."""
    folder = write_campaign(tmp_path_factory.mktemp("campaign"), Campaign(), key)
    write_bundle(folder, key)
    return folder


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTIFY_HOME", str(tmp_path / "home"))
    for name in ("CERTIFY_SIGNING_KEY", "CERTIFY_ALLOWED_SIGNERS"):
        monkeypatch.delenv(name, raising=False)


def answer(capsys: Any, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of ``certify verify ... --json``."""
    from certify.cli import main

    code = main(["verify", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)
