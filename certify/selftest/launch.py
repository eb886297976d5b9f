"""Running the trials: one long-lived process for preparations, one for references, one process
group for each number of ranks, one for comparisons. Each imports once and builds every run anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.campaign import commands
from certify.campaign.files import read_json, write_json
from certify.campaign.layout import Layout
from certify.campaign.processes import Job, run_group
from certify.errors import InfrastructureError
from certify.runspec import write_compare_spec, write_prepare_spec, write_spec
from certify.selftest import trials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from certify.runspec import RunSpec
    from certify.selftest.trials import Ground, Trial

Item = dict[str, str]


@dataclass(frozen=True)
class Launcher:
    """root: folder of the selftest; say: what a person is told meanwhile."""

    root: Path
    say: Callable[[str], None]

    def prepare(self, grounds: Sequence[Ground]) -> None:
        """Make data and weights of every ground."""
        items = []
        for on in grounds:
            path = on.layout.root / "prepare.json"
            write_prepare_spec(trials.prepare_spec(on, self.root / "cache"), path)
            items.append({"module": "runner.prepare", "file": str(path)})
            if on.case.masked:
                items.append(self._masking(on))
        self._do("prepare", items, 1)
        if missing := [on.name for on in grounds if not _is_prepared(on)]:
            raise InfrastructureError(
                f"{missing[0]} could not be prepared", where=str(self._log("prepare"))
            )

    def _masking(self, on: Ground) -> Item:
        path = on.layout.root / "masking.json"
        data = on.shared["data"]
        task = {
            "prepared": str(on.layout.prepared),
            "seq_length": data["seq_length"],
            "global_batch": data["global_batch"],
            "shuffle_seed": on.seed,
            "seed": on.seed,
        }
        write_json(path, task)
        return {"module": "runner.masking", "file": str(path)}

    def train(self, wanted: Sequence[Trial]) -> None:
        """Train the specs of all trials: references first, then candidates by number of ranks."""
        found = [spec for trial in wanted for spec in trial.specs]
        groups: dict[str, list[RunSpec]] = {}
        for spec in found:
            name = (
                f"reference-{spec.backend}"
                if spec.role == "reference"
                else f"candidate-{spec.world_size}"
            )
            groups.setdefault(name, []).append(spec)
        for name, specs in sorted(groups.items(), reverse=True):
            items = []
            for spec in specs:
                path = self._folder(spec) / "spec.json"
                write_spec(spec, path)
                items.append({"module": "runner", "file": str(path)})
            self._do(name, items, specs[0].world_size)

    def _folder(self, spec: RunSpec) -> Path:
        from pathlib import Path

        return Path(spec.run_dir)

    def compare(self, wanted: Sequence[Trial]) -> None:
        """Compare the evidence of every trial that has some."""
        items = []
        for trial in wanted:
            if trial.compare is None:
                continue
            path = trial.ground.layout.run(trial.compare.run_id) / "compare.json"
            write_compare_spec(trial.compare, path)
            items.append({"module": "runner.compare", "file": str(path)})
        self._do("compare", items, 1)

    # -- processes --------------------------------------------------------------------------

    def _log(self, name: str) -> Path:
        return Layout(self.root).log(name)

    def _do(self, name: str, items: list[Item], ranks: int) -> list[int]:
        """Exit codes of the items. Raises InfrastructureError when the process itself failed."""
        layout = Layout(self.root)
        path = layout.run(name) / "list.json"
        write_json(path, items)
        self.say(f"{name}: {len(items)} in one process group of {ranks}")
        words = ("runner.several", str(path))
        job: Job = (
            commands.module_job(name, layout, name, *words)
            if ranks == 1
            else commands.module_torchrun_job(name, layout, name, ranks, *words)
        )
        outcome = run_group([job], lambda: None)[0]
        if outcome.exit_code != 0:
            raise InfrastructureError(
                f"{name} ended with code {outcome.exit_code}", where=str(job.log)
            )
        codes: list[int] = read_json(path.with_suffix(".codes.json"), "the exit codes")
        if len(codes) < len(items):
            raise InfrastructureError(
                f"{name} stopped after {len(codes)} of {len(items)} items",
                where=str(job.log),
                expected="every item to end by itself, whatever fault it carries",
            )
        return codes


def _is_prepared(on: Ground) -> bool:
    body: Any = on.layout.prepared / "prepared.json"
    return bool(body.is_file())
