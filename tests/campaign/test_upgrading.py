"""The upgrade phase: stacks are found, jobs move to them, legs follow one another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from certify.campaign import stacks, upgrading
from certify.campaign.phases import choose
from certify.campaign.processes import Job
from certify.campaign.resolve import _stacks
from certify.campaign.stacks import NEEDED, Stack, read_stack
from certify.cli import main
from certify.errors import UsageError
from tests.campaign.test_crossing import specs_of


def fake_environment(root: Path, versions: dict[str, str | None]) -> Path:
    """A virtual environment whose Python answers the probe."""
    python = root / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{json.dumps(versions)}'\n")
    python.chmod(0o755)
    return root


FULL: dict[str, str | None] = {"python": "3.11.7", **dict.fromkeys(NEEDED, "1.0")}


def test_a_virtual_environment_is_a_stack(tmp_path: Path) -> None:
    found = read_stack("--to-env", str(fake_environment(tmp_path / "env", FULL)))
    assert found.versions == FULL
    assert found.python == str(tmp_path / "env" / "bin" / "python")
    assert found.prefix == ()


def test_what_is_no_stack_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    lacking = fake_environment(tmp_path / "lacking", {**FULL, "torch": None})
    dead = fake_environment(tmp_path / "dead", FULL)
    (dead / "bin" / "python").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    for path, what in (
        (tmp_path / "empty", "no bin/python"),
        (tmp_path / "absent", "no stack is there"),
        (lacking, "torch is not installed there"),
        (dead, "does not answer: broken"),
    ):
        with pytest.raises(UsageError, match=what) as raised:
            read_stack("--to-env", str(path))
        assert str(path) in str(raised.value.where)


def test_a_script_sets_the_variables_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "set_env.sh"
    script.write_text("export ASCEND_HOME_PATH=/there\necho noise\n")
    names = ("pytest",)
    monkeypatch.setattr(stacks, "NEEDED", names)
    stack = read_stack("--from-env", str(script))
    command = (sys.executable, "-c", "import os, sys; print(os.environ['ASCEND_HOME_PATH'])")
    job = Job("upgrade", command, tmp_path, tmp_path / "log", {})
    moved = stack.moved(job, tmp_path / "packages")
    assert subprocess.check_output(moved.command, text=True) == "/there\n"
    assert set(stack.versions) == {"python", *names}


def test_what_lies_beside_our_packages_does_not_shadow_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    stack = Stack("/env", (), sys.executable, {})
    job = Job("upgrade", ("python", "-c", "x"), tmp_path, tmp_path / "log", {"PYTHONPATH": "/ours"})
    for _ in range(2):
        moved = stack.moved(job, tmp_path / "packages")
    assert moved.environment["PYTHONPATH"] == str(tmp_path / "packages")
    assert {p.name for p in (tmp_path / "packages").iterdir()} == {"certify", "matrices", "runner"}
    found = subprocess.check_output(
        [sys.executable, "-c", "import certify.records; print(certify.__file__)"],
        env={**os.environ, **moved.environment},
        cwd=tmp_path,
        text=True,
    )
    assert found.startswith(str(tmp_path / "packages"))


def test_the_third_run_continues_the_first(tmp_path: Path) -> None:
    inputs, _ = specs_of(tmp_path, "qwen3-30b-a3b")
    specs = upgrading.leg_specs(inputs, "c-upgrade-a2")
    before, again, after = specs.values()
    assert [s.run_id for s in specs.values()] == [f"c-upgrade-{n}-a2" for n in (1, 2, 3)]
    save = inputs.scaled.resume["save_step"]
    assert before.checkpoint.save_steps == (save,)
    assert after.checkpoint.resume_from is not None
    assert f"{before.run_id}/checkpoints/step-{save:06d}" in after.checkpoint.resume_from
    assert len({s.stop_step for s in (before, again, after)}) == 1
    assert after.evidence.controls == tuple(inputs.scaled.resume["controls"])
    pair = (Stack("/a", (), "/a/p", {"torch": "1"}), Stack("/b", (), "/b/p", {"torch": "2"}))
    job = upgrading.job(inputs, "c-upgrade-a2", pair)
    launches = json.loads(Path(job.command[-1]).read_text())
    assert [launch["command"][0] for launch in launches] == ["/a/p", "/a/p", "/b/p"]
    planned = upgrading.planned(inputs, "c-upgrade-a2", pair)
    assert (planned["from_stack"], planned["to_stack"]) == ({"torch": "1"}, {"torch": "2"})


def test_the_phase_is_on_request_and_needs_both_stacks() -> None:
    assert "upgrade" not in choose(None)
    assert choose(["upgrade"]) == ("prepare", "upgrade", "judge")
    with pytest.raises(UsageError, match="without --to-env"):
        _stacks(Namespace(from_env="/x", to_env=None), ("upgrade",))
    with pytest.raises(UsageError, match="only the phase upgrade uses it"):
        _stacks(Namespace(from_env=None, to_env="/x"), ("judge",))


@pytest.mark.torch
def test_a_missing_stack_ends_with_the_code_of_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "qwen3-235b", "--backend", "fsdp2", "--phases", "upgrade", "--dry-run"]
    absent = str(tmp_path / "absent")
    assert main([*words, "--from-env", absent, "--to-env", absent]) == 2
    assert "no stack is there" in capsys.readouterr().err
