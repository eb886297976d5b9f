"""The environment of LLaMA-Factory and a run of its command line, by a stand-in for both."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from certify.cli import main
from certify.errors import InfrastructureError, UsageError
from certify.reference import environments, llamafactory
from certify.reference.environments import TOOLS, Tool
from certify.reference.llamafactory import Tuning


@dataclasses.dataclass(frozen=True)
class Small(Tool):
    """A tool whose lock is given."""

    at: Path = Path()

    @property
    def lock(self) -> Path:
        return self.at


@pytest.fixture
def tool(tmp_path: Path) -> Small:
    lock = tmp_path / "lock.txt"
    lock.write_text("# nothing\n")
    return Small("small", "1", ("unused_stub",), "import unused_stub", (3, 8), 1, lock)


def test_the_lock_pins_every_package_and_leaves_out_what_does_not_load() -> None:
    for known in TOOLS.values():
        pinned = environments.pins(known.lock.read_text("utf-8"))
        assert pinned[known.name] == known.version
        assert {"torch", "transformers", "datasets", "accelerate"} <= set(pinned)
        assert not {"torchvision", *known.stubs} & set(pinned)


@pytest.mark.parametrize("line", ["torch", "torch>=2", "a==1\nA==1", "-r other.txt", "a==1 ; x"])
def test_a_line_that_pins_nothing_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="pins nothing"):
        environments.pins(line)


def test_an_environment_is_made_once_and_by_its_lock(tool: Small, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with pytest.raises(UsageError, match="certify reference setup small"):
        environments.python_of(tool, home)
    said: list[str] = []
    folder = environments.setup(tool, home, say=said.append)
    python = environments.python_of(tool, home)
    assert python.parent.parent == folder
    where = subprocess.run(
        [str(python), "-c", "import unused_stub; print(unused_stub.__file__)"],
        capture_output=True, text=True, check=True, env=environments.clean_environment(),
    ).stdout  # fmt: skip
    assert Path(where.strip()).is_relative_to(folder)
    mark = json.loads((folder / environments.MARK).read_text())
    assert (mark["tool"], "pip" in mark["packages"]) == ("small", True)
    assert environments.setup(tool, home, say=said.append) == folder
    assert "is there already" in said[-1]
    tool.lock.write_text("# other\n")
    assert environments.folder_of(tool, home) != folder


def test_a_package_that_does_not_import_leaves_nothing(tool: Small, tmp_path: Path) -> None:
    broken = dataclasses.replace(tool, probe="raise OSError('Could not load this library')")
    with pytest.raises(InfrastructureError, match="Could not load this library"):
        environments.setup(broken, tmp_path / "home")
    assert not environments.folder_of(broken, tmp_path / "home").exists()


def test_an_old_interpreter_is_refused_before_anything_is_made(tool: Small, tmp_path: Path) -> None:
    new = dataclasses.replace(tool, python=(9, 9))
    with pytest.raises(UsageError, match=r"Python 9\.9 or later"):
        environments.setup(new, tmp_path / "home", sys.executable)
    with pytest.raises(UsageError, match="cannot run"):
        environments.setup(tool, tmp_path / "home", str(tmp_path / "none"))
    assert not (tmp_path / "home").exists()


# ---------------------------------------------------------------------------------------------
# its command line

STAND_IN = """#!{python}
import json, os, sys
from pathlib import Path
assert sys.argv[1:4] == ["-m", "llamafactory.cli", "train"], sys.argv
given = json.loads(Path(sys.argv[4]).read_text())
assert "PYTHONPATH" not in os.environ
assert os.environ["HF_HUB_OFFLINE"] == "1"
info = json.loads((Path(given["dataset_dir"]) / "dataset_info.json").read_text())[given["dataset"]]
rows = json.loads(Path(info["file_name"]).read_text())
if not rows:
    print("no rows")
    sys.exit(3)
out = Path(given["output_dir"])
out.mkdir(parents=True)
lr, ranks = given["learning_rate"], int(os.environ.get("NPROC_PER_NODE", "1"))
log = [{{"step": n + 1, "loss": 5.0 - n, "grad_norm": ranks, "learning_rate": lr}}
       for n in range(len(rows))]
(out / "trainer_state.json").write_text(json.dumps({{"log_history": log, "max_steps": len(rows)}}))
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "python"
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "/of/another/environment")
    (tmp_path / "model").mkdir()
    (tmp_path / "data.json").write_text(json.dumps([{"instruction": "a", "output": "b"}] * 3))
    return path


def test_a_run_is_configured_and_read(stand_in: Path, tmp_path: Path) -> None:
    tuning = Tuning(tmp_path / "model", tmp_path / "data.json", lr=2e-3, world_size=2)
    found = llamafactory.train(tuning, stand_in, tmp_path / "out")
    assert [(s.step, s.loss) for s in found.steps] == [(1, 5.0), (2, 4.0), (3, 3.0)]
    assert {(s.lr, s.grad_norm) for s in found.steps} == {(2e-3, 2.0)}
    with pytest.raises(UsageError, match="the folder is not empty"):
        llamafactory.train(tuning, stand_in, tmp_path / "out")


def test_by_the_command(stand_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reference", "train", "llamafactory", "--model", str(tmp_path / "model"), "--json"]
    words += ["--data", str(tmp_path / "data.json"), "--python", str(stand_in)]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["steps"], document["first_loss"]) == (3, 5.0)
    (tmp_path / "data.json").write_text("[]")
    assert main([*words, "--out", str(tmp_path / "two")]) == 4
    assert "ended with 3: no rows" in capsys.readouterr().out
    words[words.index("--python") + 1] = os.fspath(tmp_path / "none")
    assert main([*words, "--out", str(tmp_path / "three")]) == 2
    assert "cannot start LLaMA-Factory" in capsys.readouterr().out
