"""The wheel: everything that a command needs is in it, it works from any folder, and no tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT, require

PACKAGES = ("certify", "runner", "matrices", "reference_runs", "reports")
GENERATED = ("__pycache__", "compiled")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("pip", find_spec("pip") is not None, "pip is not installed in this environment")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "hatchling" in done.stderr and "No matching" in done.stderr:
        require("index", False, "no package index to fetch the build backend from")
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "CERTIFY_HOME": str(cwd / "home")}
    return subprocess.run(
        (sys.executable, "-m", "certify", *words),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )


def test_holds_every_file_of_our_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if ".dist-info/" not in n}
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and not any(word in str(path) for word in GENERATED)
    }
    assert expected - packed == set()
    assert {n.partition("/")[0] for n in packed} == set(PACKAGES)
    assert any(n.endswith("v1.toml") for n in packed)
    assert any(n.startswith("certify/store/migrations/versions/") for n in packed)
    assert any(n.startswith("reports/templates/") for n in packed)


def test_commands_work_from_another_folder(installed: Path, tmp_path: Path) -> None:
    listed = run(installed, tmp_path, "recipes", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert len(json.loads(listed.stdout)["recipes"]) == 143
    phases = run(installed, tmp_path, "run", "--list-phases")
    assert phases.returncode == 0
    assert phases.stdout.startswith("prepare")
    assert run(installed, tmp_path, "--version").stdout.startswith("certify ")


def test_a_folder_named_like_a_package_of_ours_does_no_harm(
    installed: Path, tmp_path: Path
) -> None:
    """`import certify` never shadows: the children look at the installed packages only."""
    for name in ("runner", "matrices"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('shadowed')\n")
    code = (
        "import os, subprocess, sys\n"
        "from certify.campaign.commands import environment\n"
        "env = {**os.environ, **environment(threads=1)}\n"
        "sys.exit(subprocess.run([sys.executable, '-m', 'runner.faults'], env=env,"
        " stdout=subprocess.DEVNULL).returncode)\n"
    )
    if sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no safe path: campaigns start their children elsewhere")
    done = subprocess.run(
        (sys.executable, "-P", "-c", code),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# A reference stack as pip sees it: versions only, no code. What matters is that none of it moves.
STACK = {
    "torch": "2.7.1+cpu",
    "torch_npu": "2.7.1.post4",
    "transformers": "5.2.0",
    "numpy": "1.26.4",
    "triton_ascend": "3.2.0",
    "megatron_core": "0.12.1",
    "mindspeed": "0.12.1",
}


def make_wheel(folder: Path, name: str, version: str, package: Path | None = None) -> Path:
    """A wheel of one empty module, or of an installed package's files."""
    info = f"{name}-{version}.dist-info"
    files = {f"{name}/__init__.py": b""}
    if package is not None:
        files = {f"{name}/{p.name}": p.read_bytes() for p in package.glob("*.py")}
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    )
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{n},,\n" for n in (*files, f"{info}/RECORD")).encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    return path


def test_installing_our_wheel_moves_nothing_of_a_reference_stack(
    wheel: Path, tmp_path: Path
) -> None:
    import packaging

    installed_packaging = Path(packaging.__file__).parent
    wheels = [make_wheel(tmp_path, name, version) for name, version in STACK.items()]
    wheels.append(make_wheel(tmp_path, "packaging", packaging.__version__, installed_packaging))
    subprocess.run((sys.executable, "-m", "venv", str(tmp_path / "venv")), check=True)
    python = tmp_path / "venv" / "bin" / "python"

    def pip(*words: str) -> str:
        command = (str(python), "-m", "pip", "--disable-pip-version-check", *words)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    pip("install", "--no-index", "--no-deps", *map(str, wheels))
    before = {line.partition(" @ ")[0] for line in pip("freeze").splitlines()}
    pip("install", "--no-index", "--no-deps", str(wheel))
    after = {line.partition(" @ ")[0] for line in pip("freeze").splitlines()}
    assert len(before) == len(STACK) + 1
    assert after - before == {"ascend-certify"}
    assert before <= after

    # As in a shell in which this environment is active, whatever environment runs the tests.
    activated = {
        **os.environ,
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "PATH": os.pathsep.join((str(python.parent), os.environ["PATH"])),
    }
    activated.pop("PYTHONPATH", None)
    done = subprocess.run(
        (str(python), "-m", "certify", "check-env", "--no-tools", "--json"),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=activated,
        check=False,
    )
    document = json.loads(done.stdout)
    found = {name: entry["version"] for name, entry in document["stack"].items()}
    assert found["torch"] == STACK["torch"]
    assert found["torch_npu"] == STACK["torch_npu"]
    assert done.returncode == {"reference": 0, "compatible": 0, "incompatible": 1}.get(
        document["verdict"], 3
    )
