"""Virtual environments of references that need other versions than ours, made from a lock."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from certify.campaign.files import write_json
from certify.errors import InfrastructureError, UsageError
from certify.reference.recorded import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MARK = "certify-environment.json"
PATIENCE_S = 3600
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!_-]+)")


@dataclass(frozen=True)
class Tool:
    """A reference in an environment of its own. stubs: modules that it imports and does not use,
    whose real builds do not load here; probe: a statement that must run; python: the oldest
    interpreter (major, minor); needs_mb: free disk."""

    name: str
    version: str
    stubs: tuple[str, ...]
    probe: str
    python: tuple[int, int]
    needs_mb: int

    @property
    def lock(self) -> Path:
        """The pinned packages."""
        return shipped_folder().parent / self.name / "lock.txt"


TOOLS = {
    "llamafactory": Tool(
        name="llamafactory",
        version="0.9.5",
        stubs=("torchaudio",),
        probe="import llamafactory.train.tuner",
        python=(3, 11),
        needs_mb=3000,
    )
}


def pins(text: str) -> dict[str, str]:
    """Package -> version of a lock. Raises UsageError for a line that pins nothing."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _PIN.fullmatch(line.strip())
        if match is None or match[1].lower() in found:
            raise UsageError(
                f"line {number} pins nothing: {line!r}", where="lock.txt", expected="NAME==VERSION"
            )
        found[match[1].lower()] = match[2]
    return found


def folder_of(tool: Tool, home: Path) -> Path:
    """Where the environment of this lock lies: another lock has another folder."""
    digest = hashlib.sha256(tool.lock.read_bytes()).hexdigest()[:12]
    return home / "environments" / f"{tool.name}-{tool.version}-{digest}"


def python_of(tool: Tool, home: Path) -> Path:
    """The interpreter of an environment that was set up.

    Raises UsageError, with the command that makes one, where there is none.
    """
    folder = folder_of(tool, home)
    if not (folder / MARK).is_file():
        raise UsageError(
            f"{tool.name} {tool.version} is not set up",
            where=str(folder),
            expected="an environment made from the lock",
            hint=f"certify reference setup {tool.name}",
        )
    return folder / "bin" / "python"


def setup(
    tool: Tool,
    home: Path,
    interpreter: str | None = None,
    pip: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Make the environment, whole or not at all; returns its folder. One that is there is kept.

    interpreter: the Python to make it with (default: ours); pip: further options of pip, for
    example where CPU builds of torch are found; say: progress.
    Raises UsageError for an interpreter that is too old, InfrastructureError for what fails.
    """
    folder = folder_of(tool, home)
    if (folder / MARK).is_file():
        say(f"{tool.name} {tool.version} is there already: {folder}")
        return folder
    python = interpreter or sys.executable
    _require_python(tool, python)
    _require_space(folder, tool.needs_mb)
    # Scripts of an environment hold its path: it is made in its own place, and the mark comes last.
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        say(f"making {folder}")
        _run((python, "-m", "venv", str(folder)), "make a virtual environment")
        own = str(folder / "bin" / "python")
        say(f"installing {len(pins(tool.lock.read_text('utf-8')))} packages of {tool.lock.name}")
        install = (own, "-m", "pip", "install", "--no-deps", "--no-input", "-r", str(tool.lock))
        _run((*install, *pip), "install the packages")
        _stub(folder, own, tool.stubs)
        say("importing it once")
        _run((own, "-c", tool.probe), f"import {tool.name}")
        mark = {"tool": tool.name, "version": tool.version, "packages": _installed(own)}
        write_json(folder / MARK, mark)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _require_python(tool: Tool, python: str) -> None:
    code = "import sys; print(*sys.version_info[:2])"
    found = tuple(map(int, _run((python, "-c", code), f"run {python}").split()))
    if found < tool.python:
        wanted = ".".join(map(str, tool.python))
        raise UsageError(
            f"Python {'.'.join(map(str, found))}",
            where=python,
            expected=f"Python {wanted} or later for {tool.name} {tool.version}",
            hint=f"--python python{wanted}",
        )


def _require_space(folder: Path, needs_mb: int) -> None:
    from certify.campaign.estimate import check_disk

    check_disk(folder, needs_mb)


def _stub(folder: Path, python: str, names: Sequence[str]) -> None:
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages = Path(_run((python, "-c", code), "find the packages").strip())
    if not packages.is_relative_to(folder):
        raise InfrastructureError("packages lie outside", where=str(packages), expected=str(folder))
    for name in names:
        stub = packages / name
        stub.mkdir(exist_ok=True)
        text = '"""Empty: imported by a package that does not use it; see lock.txt."""\n'
        (stub / "__init__.py").write_text(text, encoding="utf-8")


def _installed(python: str) -> dict[str, str]:
    code = (
        "import json; from importlib.metadata import distributions;"
        "print(json.dumps({d.metadata['Name'].lower(): d.version for d in distributions()}))"
    )
    found: dict[str, str] = json.loads(_run((python, "-c", code), "list the packages"))
    return dict(sorted(found.items()))


def clean_environment() -> dict[str, str]:
    """Our variables without those by which one environment's packages reach into another's."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSAFEPATH")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def _run(command: Sequence[str], what: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            env=clean_environment(),
            check=False,
        )
    except OSError as error:
        raise UsageError(f"cannot {what}: {error.strerror}", where=command[0]) from None
    except subprocess.TimeoutExpired:
        raise InfrastructureError(f"cannot {what} in {PATIENCE_S} s", where=command[0]) from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if line.lower().startswith("error")]
        raise InfrastructureError(
            f"cannot {what}: {(errors or lines or ['no reason given'])[-1]}",
            where=" ".join(command[:5]),
            hint="options of pip: --pip=--index-url=URL",
        )
    return done.stdout
