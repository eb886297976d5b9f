"""Other stacks on this host: a virtual environment, or a script that sets CANN's variables.

A job is planned for the Python that certify itself runs on; here it is moved to another one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import certify
from certify.campaign.request import TRAINING_PACKAGES
from certify.errors import UsageError

if TYPE_CHECKING:
    from certify.campaign.processes import Job

# What the FSDP2 side imports: Megatron-Core is not of it.
NEEDED = tuple(name for name in TRAINING_PACKAGES if name != "megatron-core")
OURS = ("certify", "matrices", "runner")
PROBE_LIMIT_S = 120
_EXPECTED = "the folder of a virtual environment, or a set_env.sh of CANN"
_PROBE = """
import json, platform
from importlib.metadata import PackageNotFoundError, version
found = {"python": platform.python_version()}
for name in %r:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Stack:
    """path: as asked for, absolute; prefix: command in front of ``PYTHON -m ...``; python: the
    interpreter; versions: distribution -> version, those that a run needs and ``python``."""

    path: str
    prefix: tuple[str, ...]
    python: str
    versions: dict[str, str]

    def moved(self, job: Job, packages: Path) -> Job:
        """The job on this stack. packages: folder that gets links to our own packages: what else
        lies beside them must not shadow the stack's."""
        packages.mkdir(parents=True, exist_ok=True)
        root = Path(certify.__file__).resolve().parent.parent
        for name in OURS:
            link = packages / name
            if not link.is_symlink():
                link.symlink_to(root / name, target_is_directory=True)
        command = (*self.prefix, self.python, *job.command[1:])
        variables = {**job.environment, "PYTHONPATH": str(packages)}
        return replace(job, command=command, environment=variables)


def read_stack(option: str, path: str) -> Stack:
    """The stack at a path: the folder of a virtual environment, or a ``set_env.sh``.

    Raises UsageError for anything else, and for a stack that lacks what a run needs.
    """
    where, found = f"{option} {path}", Path(path).absolute()
    if found.is_dir():
        python, prefix = found / "bin" / "python", ()
        if not python.exists():
            raise UsageError("no bin/python in this folder", where=where, expected=_EXPECTED)
        return _probed(where, str(found), prefix, str(python))
    if found.is_file() and found.suffix == ".sh":
        script = 'set -e; source "$0" >/dev/null; exec "$@"'
        return _probed(where, str(found), ("bash", "-c", script, str(found)), sys.executable)
    raise UsageError(
        "no stack is there",
        where=where,
        expected=_EXPECTED,
        hint="python -m venv ENV && ENV/bin/pip install torch transformers",
    )


def _probed(where: str, path: str, prefix: tuple[str, ...], python: str) -> Stack:
    ours = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            [*prefix, python, "-c", _PROBE % (NEEDED,)],
            capture_output=True,
            check=True,
            env=ours,
            stdin=subprocess.DEVNULL,
            timeout=PROBE_LIMIT_S,
        )
        versions = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", None) or b""
        tail = said.decode("utf-8", "replace").strip().splitlines()[-1:] or [str(error)]
        raise UsageError(f"its Python does not answer: {tail[0]}", where=where) from None
    if lacking := [name for name in NEEDED if versions[name] is None]:
        raise UsageError(
            f"{lacking[0]} is not installed there",
            where=where,
            expected=", ".join(NEEDED),
            hint=f"{python} -m pip install {' '.join(lacking)}",
        )
    return Stack(path, prefix, python, versions)
