"""One selftest: choose faults and grounds, prepare, train, compare, judge."""

from __future__ import annotations

import time
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from certify.campaign.faults import known_faults
from certify.campaign.request import training_versions
from certify.errors import UsageError
from certify.selftest import trials
from certify.selftest.cases import Case, read_cases
from certify.selftest.launch import Launcher
from certify.selftest.outcome import outcome
from certify.selftest.table import document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


def chosen(
    faults: Mapping[str, Mapping[str, Any]], cases: Sequence[Case], quick: bool
) -> list[tuple[str, Case]]:
    """(fault, case) of every trial: a fault in each case that it fits, with quick in the first.

    A fault that fits no case is left out: it belongs to a backend or layout that is not here.
    """
    found = []
    for name, fault in faults.items():
        fitting = [case for case in cases if case.fits(fault)]
        found += [(name, case) for case in (fitting[:1] if quick else fitting)]
    return found


def selftest(
    root: Path,
    seeds: Sequence[int],
    quick: bool,
    names: Sequence[str] | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The document of one selftest (`table.document`). names: faults, None for all.

    Raises UsageError for an unknown fault and InfrastructureError when a process of the selftest
    itself fails.
    """
    began = time.monotonic()
    faults = _named(known_faults(), names)
    shared, cases = read_cases()
    pairs = chosen(faults, cases, quick)
    used = {case.name for _, case in pairs} | ({"moe"} if quick else {c.name for c in cases})
    grounds = {
        (case.name, seed): trials.ground(case, seed, shared, root)
        for case in cases
        for seed in seeds
        if case.name in used
    }
    launcher = Launcher(root, say)
    launcher.prepare(list(grounds.values()))
    wanted = [trials.unharmed(on) for on in grounds.values()]
    wanted += [
        trials.harmed(grounds[case.name, seed], name, faults[name])
        for name, case in pairs
        for seed in seeds
    ]
    launcher.train(wanted)
    launcher.compare(wanted)
    say(f"judging {len(wanted)} trials")
    outcomes = [outcome(trial) for trial in wanted]
    facts = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seeds": list(seeds),
        "versions": training_versions(),
        "cases": {case.name: case.summary for case in cases if case.name in used},
        "not_here": sorted(set(faults) - {name for name, _ in pairs}),
        "seconds": round(time.monotonic() - began, 1),
    }
    return document(outcomes, facts)


def _named(faults: dict[str, dict[str, Any]], names: Sequence[str] | None) -> dict[str, Any]:
    if names is None:
        return faults
    for name in names:
        if name not in faults:
            near = get_close_matches(name, faults, n=1)
            raise UsageError(
                f"unknown fault {name!r}",
                where="--faults",
                expected=f"one of {', '.join(sorted(faults))}",
                hint=f"did you mean {near[0]}?" if near else None,
            )
    return {name: faults[name] for name in names}
