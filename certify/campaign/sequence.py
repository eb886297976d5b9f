"""Runs several commands one after another: ``python -m certify.campaign.sequence FILE``.

A phase of a campaign is one process to its driver; this is that process where a phase needs
several launches, each of which starts from what the one before it left.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from certify.campaign.commands import environment
from certify.campaign.files import write_json
from certify.campaign.processes import Job
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certify.campaign.layout import Layout


def sequence_job(name: str, layout: Layout, run_id: str, jobs: Sequence[Job]) -> Job:
    """One job that does all of `jobs` in order and ends with the first that fails."""
    path = layout.run(run_id) / "sequence.json"
    write_json(
        path,
        [{**dataclasses.asdict(job), "cwd": str(job.cwd), "log": str(job.log)} for job in jobs],
    )
    return Job(
        name=name,
        command=(sys.executable, "-m", "certify.campaign.sequence", str(path)),
        cwd=layout.run(run_id),
        log=layout.log(run_id),
        environment=environment(threads=1),
    )


def main(words: Sequence[str]) -> int:
    """Do the jobs of a file; returns 0, or the exit code of the first that failed."""
    for job in load_json(Path(words[0]).read_text(encoding="utf-8")):
        log = Path(job["log"])
        log.parent.mkdir(parents=True, exist_ok=True)
        Path(job["cwd"]).mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            done = subprocess.run(
                job["command"],
                cwd=job["cwd"],
                env={**os.environ, **job["environment"]},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            # The driver shows the end of this log: it must say why.
            tail = log.read_bytes()[-8000:].decode("utf-8", "replace")
            print(json.dumps(job["command"]), tail, sep="\n", flush=True)
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
