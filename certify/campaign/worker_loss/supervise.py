"""The process of the worker-loss phase: ``python -m certify.campaign.worker_loss.supervise FILE``.

It starts torchrun (which restarts lost ranks), the heartbeat (which ends stuck ones), does one
injection after another, and starts torchrun itself again when that is lost. What it did and
saw it records beside the ranks' records, in the streams ``injector`` and ``heartbeat``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign import commands
from certify.campaign.layout import Layout
from certify.campaign.processes import descendants, is_alive
from certify.campaign.worker_loss import inject
from certify.campaign.worker_loss.schedule import Injection, parsed
from certify.json_text import load_json
from certify.records import Header, Stamp, Writer, rank_file, read_stamps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

POLL_S = 0.02
# A rank looks twice a second whether its agent is still there.
ORPHAN_GRACE_S = 5.0


class Supervisor:
    """One worker-loss run. task: the JSON of FILE."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.layout = Layout(Path(task["root"]))
        self.run_id, self.task = str(task["run_id"]), task
        self.run_dir = self.layout.run(self.run_id)
        header = Header(self.run_id, "injector", "", 0, 1, os.getpid(), time.time())
        self.writer = Writer(rank_file(self.run_dir, 0, "injector"), header)
        self.parent, self.launches = os.getppid(), 0
        self.agent: subprocess.Popen[bytes] | None = None
        self.heartbeat: subprocess.Popen[bytes] | None = None
        self.seen: set[int] = set()

    # -- processes --------------------------------------------------------------------------

    def _start(
        self, command: Sequence[str], environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        log = self.layout.log(self.run_id)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.run_dir,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def launch(self) -> None:
        """Start torchrun, with a meeting point of its own."""
        self.launches += 1
        job = commands.elastic_job(
            self.layout, self.run_id, self.task["world_size"], Path(self.task["spec"]),
            launch=self.launches, max_restarts=self.task["max_restarts"],
        )  # fmt: skip
        self.agent = self._start(job.command, job.environment)
        self.writer.event("launched", 0, pid=self.agent.pid, launch=self.launches)

    def watch(self) -> None:
        """Start the heartbeat."""
        words = (str(self.run_dir), str(self.task["heartbeat_s"]), str(self.task["start_s"]))
        command = (sys.executable, "-m", "runner.heartbeat", *words)
        self.heartbeat = self._start(command, commands.environment(threads=1))

    def end(self) -> None:
        """End every process of this run; none survives."""
        pids = [p for p in descendants(os.getpid()) if is_alive(p)]
        for pid in {*pids, *(p for p in self.seen if is_alive(p))}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (self.agent, self.heartbeat):
            if process is not None:
                process.wait()
        self.writer.close()

    # -- looking ----------------------------------------------------------------------------

    def stamps(self) -> dict[int, Stamp]:
        """The last stamp of every rank."""
        found = read_stamps(self.run_dir)
        self.seen |= {stamp.pid for stamp in found.values()}
        return found

    def is_running(self) -> bool:
        """Whether the launcher runs and the campaign wants this to go on."""
        return self.agent is not None and self.agent.poll() is None and os.getppid() == self.parent

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition while the launcher runs. False when it ended or time is up."""
        deadline = time.monotonic() + timeout_s
        while self.is_running() and time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(POLL_S)
        return condition()

    def started(self, before: set[int]) -> int | None:
        """The first step of a start that is not one of the processes `before`, None until all
        ranks have begun it."""
        found = self.stamps()
        if len(found) < self.task["world_size"]:
            return None
        steps = [s.step for s in found.values() if s.pid not in before and s.step > 0]
        return min(steps) if len(steps) == len(found) else None

    # -- one injection ----------------------------------------------------------------------

    def begun(self, before: set[int]) -> int | None:
        """Wait until every rank trains in a new process; the first step, None when they do not."""
        self.until(lambda: self.started(before) is not None, self.task["recover_s"])
        return self.started(before)

    def do(self, injection: Injection, first_step: int) -> bool:
        """Do one injection and wait until the run trains again. False when it does not."""
        stamp = inject.caught(self.run_dir, injection, first_step, self.is_running)
        if stamp is None:
            return False
        before = {s.pid for s in self.stamps().values()}
        at_s = time.time()
        proof, undo = self._harm(injection, stamp, before)
        self.writer.event(
            "injected", stamp.step, number=injection.number, kind=injection.kind,
            rank=stamp.rank, pid=stamp.pid, mark=stamp.mark,
            began_unix_s=at_s, **proof,
        )  # fmt: skip
        if injection.kind == "kill-launcher":
            self._relaunch(before)
        if injection.kind == "disk-full":
            # Room is made as soon as the save has failed; the run must see to the rest itself.
            self.until(lambda: any(not is_alive(pid) for pid in before), self.task["recover_s"])
            undo()
        first = self.begun(before)
        if first is None:
            self.writer.event("not_recovered", stamp.step, number=injection.number)
            return False
        left = sorted(pid for pid in before if is_alive(pid))
        self.writer.event(
            "recovered", first, number=injection.number, orphans=len(left),
            seconds=round(time.time() - at_s, 3),
        )  # fmt: skip
        return True

    def _harm(
        self, injection: Injection, stamp: Stamp, pids: set[int]
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """(proof that it happened, what takes it back)."""
        kind, nothing = injection.kind, lambda: None
        if kind == "hang":
            return inject.hang(stamp.pid), nothing
        if kind == "kill-launcher":
            assert self.agent is not None
            os.kill(stamp.pid, signal.SIGCONT)
            self.agent.send_signal(signal.SIGKILL)
            code = self.agent.wait()
            return {"signal": "SIGKILL", "agent": self.agent.pid, "fired": code == -9}, nothing
        if kind == "disk-full":
            proof, undo = inject.fill_disk(self.run_dir / "checkpoints", sorted(pids))
            os.kill(stamp.pid, signal.SIGCONT)
            return proof, undo
        damage = inject.corrupt(self.run_dir / "checkpoints") if "corrupt" in kind else {}
        killed = inject.kill(stamp.pid)
        return {**killed, **damage, "fired": killed["fired"] and damage.get("fired", True)}, nothing

    def _relaunch(self, before: set[int]) -> None:
        """Start a lost launcher again, once its ranks are gone."""
        deadline = time.monotonic() + ORPHAN_GRACE_S
        while time.monotonic() < deadline and any(is_alive(pid) for pid in before):
            time.sleep(POLL_S)
        left = [pid for pid in sorted(before) if is_alive(pid)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.writer.event("launcher_lost", 0, left_over=len(left))
        self.launch()

    # -- all --------------------------------------------------------------------------------

    def run(self) -> int:
        """Do all injections, then let the run end; returns the launcher's exit code."""
        self.launch()
        self.watch()
        first = self.begun(set())
        for injection in parsed(self.task["injections"]):
            if first is None:
                break
            if not self.do(injection, first):
                # What did not recover is for the judge: this phase itself did its work.
                self.writer.event("given_up", 0, number=injection.number)
                return 0
            first = min(s.step for s in self.stamps().values())
        self.until(lambda: False, self.task["end_s"])
        code = None if self.agent is None else self.agent.poll()
        self.writer.event("ended", 0, exit_code=-1 if code is None else code)
        return 0


def main(words: Sequence[str]) -> int:
    """Supervise the run that one file describes."""
    supervisor = Supervisor(load_json(Path(words[0]).read_text(encoding="utf-8")))
    try:
        return supervisor.run()
    finally:
        supervisor.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
