"""The collector: POSIX sh, reads only, prints no secrets, and its output is a whole report."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from certify.cli import main
from certify.cli.collector import script
from certify.environment.report import read_report
from tests.environment.test_npu_smi import A2

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]


def collect(shell: str, tmp_path: Path, **environ: str) -> str:
    tool = tmp_path / "bin/npu-smi"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f"#!/bin/sh\ncat <<'EOF'\n{A2}EOF\n")
    tool.chmod(0o755)
    words = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        words,
        input=script(),
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": f"{tool.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), **environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_its_output_is_a_report(shell: str, tmp_path: Path) -> None:
    out = collect(shell, tmp_path, ASCEND_HOME_PATH="/usr/local/Ascend/cann-8.5.0")
    stack = read_report(out)
    found = {name: rows[0].version for name, rows in stack.components.items()}
    assert (found["driver"], found["product"], found["cann"]) == ("25.3.rc1", "A2", "8.5.0")
    assert "python" in found
    assert "arch" in found
    assert len(stack.devices) == 2
    assert not [section for section in stack.sections if section.state == "unparsed"]


def test_no_secrets_and_no_foreign_variables(tmp_path: Path) -> None:
    out = collect(
        "sh", tmp_path, ASCEND_API_KEY="sesame-1", HF_TOKEN="sesame-2", TORCH_AUTH_X="sesame-3",
        HCCL_CONNECT_TIMEOUT="1800",
    )  # fmt: skip
    assert "sesame" not in out
    assert "HCCL_CONNECT_TIMEOUT=1800" in out


def test_it_changes_nothing() -> None:
    text = script()
    for word in ("rm ", "mv ", "mkdir", "sudo", "chmod", "> /", ">/", "curl", "wget", "tee "):
        allowed = text.replace(">/dev/null", "").replace("> report.txt", "")
        assert word not in allowed, word
    assert text.startswith("#!/bin/sh\n")


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collector"]) == 0
    assert capsys.readouterr().out == script()


@pytest.mark.skipif("dash" not in SHELLS, reason="no dash")
def test_dash_accepts_its_syntax(tmp_path: Path) -> None:
    file = tmp_path / "collect.sh"
    file.write_text(script())
    assert subprocess.run(["dash", "-n", str(file)]).returncode == 0


def test_passwords_in_addresses_are_masked(tmp_path: Path) -> None:
    out = collect(
        "sh", tmp_path, PYTHONPATH="/a:http://user:ses@me@h/b", TORCH_HOME="//u:sesame@h:/c",
    )  # fmt: skip
    assert "PYTHONPATH=/a:http://***@h/b" in out
    assert "TORCH_HOME=//***@h:/c" in out
    assert "ses@me" not in out


@pytest.mark.parametrize("ops", [True, False])
def test_it_tells_whether_the_operators_are_there(tmp_path: Path, ops: bool) -> None:
    tree = tmp_path / "Ascend/cann-9.0.0"
    info = tree / "aarch64-linux/ascend_toolkit_install.info"
    info.parent.mkdir(parents=True)
    info.write_text("package_name=Ascend-cann-toolkit\nversion=9.0.0\n")
    if ops:
        (tree / "opp/built-in/op_impl/ai_core/tbe/kernel/ascend910b").mkdir(parents=True)
    stack = read_report(collect("sh", tmp_path, ASCEND_HOME_PATH=str(tree)))
    absent = [s.data["path"] for s in stack.signals if s.id == "kernels-absent"]
    assert absent == ([] if ops else [str(tree)])
    chips = [f.version for f in stack.components.get("cann_ops_chips", ())]
    assert chips == (["ascend910b"] if ops else [])
    assert stack.components["collected_view"][0].version in ("host", "container")


def test_an_editable_mindspeed_is_followed_to_its_branch(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.10/site-packages"
    info = site / "mindspeed-0.12.1.dist-info"
    info.mkdir(parents=True)
    top = tmp_path / "src/MindSpeed-LLM/MindSpeed"
    (info / "direct_url.json").write_text(
        f'{{"url": "file://{top}", "dir_info": {{"editable": true}}}}'
    )
    (top / ".git").mkdir(parents=True)
    (top / ".git/HEAD").write_text("ref: refs/heads/2.3.0_core_r0.12.1\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.10.12" || echo {site}\n')
    python.chmod(0o755)
    stack = read_report(collect("sh", tmp_path, PYTHON=str(python)))
    found = {f.version for f in stack.components["mindspeed_core"]}
    assert "2.3.0_core_r0.12.1" in found
    assert "mindspeed_llm" not in stack.components
