"""One call of ``certify run``: find the interrupted campaign or create one, lock it, drive it."""

from __future__ import annotations

import fcntl
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign import estimate
from certify.campaign.driver import Driver
from certify.campaign.evidence import write_environment
from certify.campaign.layout import Layout
from certify.campaign.phases import PHASES
from certify.campaign.state import CampaignState, PhaseState, read_state, write_state
from certify.campaign.work import prepared_is_whole, write_recipe
from certify.criteria.load import load_criteria
from certify.errors import InfrastructureError, UsageError
from certify.evidence.keys import signing_key
from certify.store import NewCampaign, RunToReserve, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.campaign.progress import Progress
    from certify.campaign.request import Request
    from certify.store.campaigns import Store

LOCK = ".lock"


@dataclass
class Session:
    """home: state folder; out: folder asked for with ``--out``; fresh: continue nothing."""

    request: Request
    home: Path
    out: Path | None
    fresh: bool
    progress: Progress
    layout: Layout | None = None
    identity: str = ""

    def run(self) -> dict[str, Any] | None:
        """Returns the judge's document, None when the judge was not among the phases."""
        with open_store(home=self.home) as store:
            found = self._find(store)
            if found is None:
                self.identity = self._new_identity()
                found = Layout(self.out or self.home / "campaigns" / self.identity)
                estimate.check_disk(
                    found.root, estimate.disk_mb(self.request.scale, self.request.phases)
                )
            self.layout = layout = found
            with _locked(layout.root):
                # Read under the lock: another call may have come first.
                state = self._in_folder(layout) if layout.state.exists() else None
                if state is None:
                    state = self._create(store, layout)
                else:
                    state = self._continued(state, layout, store)
                write_state(state, layout.state)
                driver = Driver(self.request, layout, state, store, self.progress, self.home)
                if not layout.recipe.exists():
                    write_recipe(driver)
                self.progress.say(f"campaign {state.id} in {layout.root}")
                return driver.run()

    def _find(self, store: Store) -> Layout | None:
        """The campaign to continue: in ``--out``, or the store's newest of the same request."""
        if self.out is not None:
            layout = Layout(self.out)
            return layout if self._in_folder(layout) is not None else None
        if self.fresh:
            return None
        for campaign in store.find_interrupted(self.request.key):
            layout = Layout(Path(campaign.folder))
            if layout.state.exists() and read_state(layout.state).status != "completed":
                return layout  # a deleted folder leaves nothing to continue
        return None

    def _in_folder(self, layout: Layout) -> CampaignState | None:
        """The campaign in a folder that this call may continue, None for an empty folder."""
        root = layout.root
        if root.exists() and not root.is_dir():
            raise UsageError("not a folder", where=f"--out {root}", expected="a folder")
        if not root.exists() or all(path.name == LOCK for path in root.iterdir()):
            return None
        if not layout.state.exists():
            raise UsageError(
                "the folder is not empty and holds no campaign",
                where=f"--out {root}",
                hint="name a new or empty folder",
            )
        state = read_state(layout.state)
        if state.key != self.request.key or state.status == "completed" or self.fresh:
            what = "a finished campaign" if state.status == "completed" else "a campaign"
            raise UsageError(
                f"the folder holds {what} ({state.id})",
                where=str(root),
                expected="an empty folder, or an interrupted campaign of the same command, software"
                " and data, without --fresh",
                hint="name a new folder with --out",
            )
        return state

    def _continued(self, state: CampaignState, layout: Layout, store: Store) -> CampaignState:
        done = [p.name for p in state.phases if p.status == "completed"]
        self.progress.say(
            f"continuing {state.id} ({state.status}); already done: {', '.join(done) or 'nothing'}"
        )
        store.resume_campaign(state.id)
        for phase in state.phases:
            # What was cut off or failed is run again, under a new run id; so is what is damaged.
            damaged = phase.name == "prepare" and not prepared_is_whole(layout)
            if phase.status in ("running", "interrupted", "failed") or damaged:
                state = state.with_phase(phase.name, status="pending", reason="")
        return state

    def _new_identity(self) -> str:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        return f"{self.request.recipe_id}-{stamp}-{secrets.token_hex(2)}"

    def _create(self, store: Store, layout: Layout) -> CampaignState:
        """Reserve a campaign and all its runs, before anything is launched."""
        r = self.request
        identity = self.identity or self._new_identity()
        state = CampaignState(
            id=identity,
            recipe_id=r.recipe_id,
            backend=r.backend,
            scale=r.scale_name,
            device=r.device,
            stage=r.stage,
            status="running",
            key=r.key,
            created_unix_s=time.time(),
            command=r.command,
            phases=tuple(PhaseState(n, run_id=f"{identity}-{n}") for n in r.phases),
            inject=r.fault[1] if r.fault else None,
            options={"data": r.data_path, "tokenizer": r.tokenizer_path},
        )
        criteria = load_criteria()
        signing_key()  # a key that is not there is said before anything runs
        write_state(state, layout.state)
        write_environment(layout)
        store.create_campaign(
            NewCampaign(
                id=identity,
                recipe_id=r.recipe_id,
                backend=r.backend,
                scale=r.scale_name,
                device=r.device,
                stage=r.stage,
                criteria_version=criteria.version,
                criteria_sha256=criteria.sha256,
                key=r.key,
                folder=str(layout.root),
                inject=state.inject,
            )
        )
        reserved = [RunToReserve(f"{identity}-{n}", n, PHASES[n].side) for n in r.phases]
        store.reserve_runs(identity, reserved)
        return state


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the lock of a campaign folder: two calls must not drive one campaign."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InfrastructureError(
                "another certify run is working on this campaign",
                where=str(root),
                hint="wait for it, or start a campaign of its own with --fresh",
            ) from None
        yield
