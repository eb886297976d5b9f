"""The exact command and environment of every process a campaign starts."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import certify
from certify.campaign.processes import Job

if TYPE_CHECKING:
    from certify.campaign.layout import Layout

_LOOPBACK = "lo"


def _root() -> str:
    """The folder that holds our packages: a site-packages folder or a checkout."""
    return str(Path(certify.__file__).resolve().parent.parent)


def environment(threads: int) -> dict[str, str]:
    """Variables of every child. Nothing may reach for a network, and our packages are found
    whatever the working folder holds."""
    path = [_root(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    variables = {
        "CERTIFY_PARENT_PID": str(os.getpid()),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if Path(f"/sys/class/net/{_LOOPBACK}").exists():
        variables["GLOO_SOCKET_IFNAME"] = _LOOPBACK
    return variables


def module_job(name: str, layout: Layout, run_id: str, module: str, *arguments: str) -> Job:
    """One plain Python process."""
    return Job(
        name=name,
        command=(sys.executable, "-m", module, *arguments),
        cwd=layout.run(run_id),
        log=layout.log(run_id),
        environment=environment(threads=1),
    )


def torchrun_job(name: str, layout: Layout, run_id: str, world_size: int, spec: Path) -> Job:
    """``world_size`` ranks on this host under torchrun."""
    return _torchrun(name, layout, run_id, world_size, ("runner", str(spec)), "", ())


def module_torchrun_job(
    name: str, layout: Layout, run_id: str, world_size: int, *words: str
) -> Job:
    """A module of ours as `world_size` ranks. words: the module and its arguments."""
    return _torchrun(name, layout, run_id, world_size, words, "", ())


def elastic_job(
    layout: Layout, run_id: str, world_size: int, spec: Path, *, launch: int, max_restarts: int
) -> Job:
    """The same, with lost ranks started again. launch: counts the launchers of one run, each of
    which needs meeting points of its own; ranks end when their agent does."""
    words = (f"--max-restarts={max_restarts}", "--monitor-interval=0.5")
    job = _torchrun(
        "worker-loss", layout, run_id, world_size, ("runner", str(spec)), f"-l{launch}", words
    )
    return replace(job, environment={**job.environment, "CERTIFY_END_WITH_LAUNCHER": "1"})


def _torchrun(
    name: str,
    layout: Layout,
    run_id: str,
    world_size: int,
    module: tuple[str, ...],
    launch: str,
    words: tuple[str, ...],
) -> Job:
    rendezvous = layout.run(run_id) / f"rendezvous{launch}"
    rendezvous.mkdir(parents=True, exist_ok=True)
    return Job(
        name=name,
        command=(
            sys.executable,
            "-m",
            "torch.distributed.run",
            # Rendezvous through files: a TCP store would ask a name server for its peers' names.
            "--rdzv-backend=c10d",
            "--rdzv-conf=store_type=file",
            f"--rdzv-endpoint={rendezvous / 'agents'}",
            f"--rdzv-id={run_id}{launch}",
            *words,
            "--local-addr=127.0.0.1",
            f"--nproc-per-node={world_size}",
            # Its own folder for error files would be left behind in the temporary folder.
            f"--log-dir={layout.log(run_id).parent / 'torchrun'}",
            "-m",
            *module,
        ),
        cwd=layout.run(run_id),
        log=layout.log(run_id),
        environment={**environment(threads=1), "CERTIFY_STORE": str(rendezvous / "ranks")},
    )
