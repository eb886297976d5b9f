"""Runs the phases of a campaign in order, each recorded before and after, so that an interrupted
one continues where it stopped."""

from __future__ import annotations

import dataclasses
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from certify.campaign import evidence, references, work
from certify.campaign.estimate import phase_seconds, remember
from certify.campaign.failures import failed_phase
from certify.campaign.files import read_json
from certify.campaign.phases import PHASES, waves
from certify.campaign.processes import Job, Outcome, run_group
from certify.campaign.progress import StepTail, duration, phase_line
from certify.campaign.state import CampaignState, write_state
from certify.errors import CertifyError
from certify.records import rank_file

if TYPE_CHECKING:
    from pathlib import Path

    from certify.campaign.layout import Layout
    from certify.campaign.progress import Progress
    from certify.campaign.request import Request
    from certify.store.campaigns import Store


class Driver:
    """One campaign being run. home: where references and timings are kept."""

    def __init__(
        self,
        request: Request,
        layout: Layout,
        state: CampaignState,
        store: Store,
        progress: Progress,
        home: Path,
    ) -> None:
        self.request = request
        self.layout = layout
        self.state = state
        self.store = store
        self.progress = progress
        self.home = home
        self.estimates = phase_seconds(home, request.scale, request.device, request.phases)

    def run(self) -> dict[str, Any] | None:
        """Run what is still to be done; returns the judge's document, None without that phase.

        Raises InfrastructureError when a phase could not do its work, and KeyboardInterrupt after
        everything was ended and recorded as interrupted.
        """
        self._set(status="running")
        try:
            for wave in waves(self.request.phases):
                self._wave(tuple(n for n in wave if self._still_to_run(n)))
        except KeyboardInterrupt:
            self._stop("interrupted", "interrupted")
            raise
        except BaseException as error:
            self._stop("failed", str(getattr(error, "what", error)))
            raise
        self._set(status="completed")
        remember(self.home, self.state)
        if "judge" not in self.request.phases:
            self.store.close_campaign(self.state.id)
            return None
        document: dict[str, Any] = read_json(self.layout.verdict, "the verdict")
        self.store.finish_campaign(self.state.id, document)
        self._bundle()
        return document

    def _bundle(self) -> None:
        """Write the bundle; without one the verdict still stands, and cannot be shown to others."""
        try:
            evidence.bundle(self.layout)
        except CertifyError as error:
            self.progress.say(f"no bundle of evidence was written: {error.what}")

    # -- bookkeeping ------------------------------------------------------------------------

    def _set(self, **changes: Any) -> None:
        self.state = dataclasses.replace(self.state, **changes)
        write_state(self.state, self.layout.state)

    def _set_phase(self, name: str, **changes: Any) -> None:
        self.state = self.state.with_phase(name, **changes)
        write_state(self.state, self.layout.state)

    def _stop(self, status: str, reason: str) -> None:
        for phase in self.state.phases:
            if phase.status == "running":
                self._set_phase(phase.name, status=status, reason=reason)
                if phase.run_id:
                    # The exception that brought us here must not be hidden by a second failure.
                    with suppress(Exception):
                        self.store.finish_run(phase.run_id, "aborted", reason=reason)
        self._set(status=status)
        with suppress(Exception):
            if status == "interrupted":
                self.store.mark_interrupted(self.state.id, reason)
            else:
                self.store.fail_campaign(self.state.id, reason)

    def _still_to_run(self, name: str) -> bool:
        return self.state.phase(name).status != "completed"

    # -- one wave ---------------------------------------------------------------------------

    def _wave(self, names: tuple[str, ...]) -> None:
        if not names:
            return
        if names[0] != "prepare":
            work.check_plan(self)
        if names[0].startswith("reference") and self._from_cache(names):
            return
        in_process = [n for n in names if n in work.IN_PROCESS]
        for name in in_process:
            self._in_process(name)
        jobs = [self._begin(name) for name in names if name not in in_process]
        if not jobs:
            return
        began = time.monotonic()
        tails = self._tails(jobs)
        self.progress.begin()

        def tick() -> None:
            for tail in tails:
                tail.poll()
            self.progress.update(self._line(jobs, tails, began))

        outcomes = run_group(jobs, tick, self._started)
        for outcome in outcomes:
            self._ended(outcome)
        if names[0].startswith("reference"):
            self._keep_reference(names)

    def _begin(self, name: str) -> Job:
        """Write the spec of a phase, reserve its run, and return the job to start."""
        return work.JOBS[name](self, name, self._begin_run(name))

    def _begin_run(self, name: str) -> str:
        """Mark a phase as running; a repeated one gets a run of its own. Returns the run id."""
        phase = self.state.phase(name)
        attempt = phase.attempt + 1
        suffix = f"-a{attempt}" if attempt > 1 else ""
        run_id = f"{self.state.id}-{name}{suffix}"
        if attempt > 1:
            self.store.reserve_runs(self.state.id, [(run_id, name, PHASES[name].side)])
        self._set_phase(name, status="running", run_id=run_id, attempt=attempt, reason="")
        return run_id

    def _started(self, job: Job, pid: int) -> None:
        run_id = self.state.phase(job.name).run_id
        if run_id is not None:
            self.store.start_run(run_id, pid)

    def _ended(self, outcome: Outcome) -> None:
        phase = self.state.phase(outcome.name)
        wall_s, cpu_s = round(outcome.wall_s, 2), round(outcome.cpu_s, 2)
        run_id = phase.run_id or ""
        if outcome.exit_code == 0:
            if outcome.name == "prepare":
                # Before the phase counts as done: without its plan it is not.
                work.after_prepare(self)
            self.store.finish_run(run_id, "completed", exit_code=0, wall_s=wall_s, cpu_s=cpu_s)
            self._set_phase(outcome.name, status="completed", wall_s=wall_s, cpu_s=cpu_s)
            self.progress.say(
                f"  {outcome.name:<16}  done in {duration(outcome.wall_s)}"
                f" ({duration(outcome.cpu_s)} CPU)"
            )
            return
        failure = failed_phase(outcome, self.layout, run_id)
        self.store.finish_run(
            run_id,
            "failed",
            exit_code=outcome.exit_code,
            reason=failure.what,
            wall_s=wall_s,
            cpu_s=cpu_s,
        )
        self._set_phase(
            outcome.name, status="failed", reason=failure.what, wall_s=wall_s, cpu_s=cpu_s
        )
        raise failure

    def _in_process(self, name: str) -> None:
        run_id = self._begin_run(name)
        self.store.start_run(run_id, os.getpid())
        wall, cpu = time.monotonic(), time.process_time()
        work.IN_PROCESS[name](self)
        wall_s = round(time.monotonic() - wall, 2)
        cpu_s = round(time.process_time() - cpu, 2)
        self.store.finish_run(run_id, "completed", wall_s=wall_s, cpu_s=cpu_s)
        self._set_phase(name, status="completed", wall_s=wall_s, cpu_s=cpu_s)

    # -- the cache of references ------------------------------------------------------------

    @property
    def _references(self) -> Path:
        return self.home / "references"

    def _from_cache(self, names: tuple[str, ...]) -> bool:
        entry = references.find(self._references, work.reference_key(self))
        if entry is None:
            return False
        for name in names:
            run_id = self.state.phase(name).run_id or f"{self.state.id}-{name}"
            if not references.restore(entry, name, self.layout.run(run_id)):
                return False
            self.store.finish_run(run_id, "completed", reason="cached")
            self._set_phase(name, status="completed", run_id=run_id, cached=True, attempt=1)
        self.progress.say(f"  {'reference':<16}  taken from the cache ({entry.name[:12]})")
        return True

    def _keep_reference(self, names: tuple[str, ...]) -> None:
        phases = [self.state.phase(name) for name in names]
        if len(phases) < 2 or any(p.status != "completed" or not p.run_id for p in phases):
            return
        folders = {p.name: self.layout.run(p.run_id or "") for p in phases}
        key = work.reference_key(self)
        references.store(self._references, key, folders)
        self.store.put_reference(key, str(self._references / key))

    # -- progress ---------------------------------------------------------------------------

    def _tails(self, jobs: list[Job]) -> list[StepTail]:
        sides = ("candidate", "reference")
        trained = [j for j in jobs if PHASES[j.name].side in sides and not PHASES[j.name].gate]
        return [
            StepTail(rank_file(self.layout.run(self.state.phase(j.name).run_id or ""), 0))
            for j in trained
        ]

    def _line(self, jobs: list[Job], tails: list[StepTail], began: float) -> str:
        name = jobs[0].name
        later = [
            self.estimates[p.name]
            for p in self.state.phases
            if p.status == "pending" and PHASES[p.name].wave > PHASES[name].wave
        ]
        first, last = work.step_range(self, name)
        return phase_line(name, tails, first, last, began, sum(later))
