"""The phases of a campaign, in order. Phases of one wave run side by side."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


@dataclass(frozen=True)
class Phase:
    """needs: phases that must have run before; side: what the run is in the records, ``certify``
    for a phase that trains nothing; fresh: why it has processes of its own, or that it has not;
    gate: of the criteria, for a phase that runs only where the scale requires this gate or the
    user names the phase."""

    name: str
    wave: int
    needs: tuple[str, ...]
    side: str
    summary: str
    fresh: str
    gate: str = ""


PHASES: dict[str, Phase] = {
    phase.name: phase
    for phase in (
        Phase(
            "prepare",
            0,
            (),
            "certify",
            "data, tokenizer, initial weights, and the plan",
            "one process",
        ),
        Phase(
            "reference",
            1,
            ("prepare",),
            "reference",
            "Megatron-Core, of mcore transformers, on one rank: the trajectory to match",
            "own process: no module of the candidate is loaded",
        ),
        Phase(
            "reference-again",
            1,
            ("prepare",),
            "reference",
            "the reference once more (A/A): its own spread",
            "own process: a repetition",
        ),
        Phase(
            "candidate",
            2,
            ("prepare",),
            "candidate",
            "collectives self-test, then the recipe, uninterrupted",
            "own processes under torchrun",
        ),
        Phase(
            "candidate-again",
            3,
            ("candidate",),
            "candidate",
            "the recipe once more: decides the tier of the resume gate",
            "own processes: a repetition",
        ),
        Phase(
            "resume",
            4,
            ("candidate",),
            "candidate",
            "the recipe continued from its checkpoint, then negative controls",
            "own processes: nothing survives but the checkpoint",
        ),
        Phase(
            "reshard",
            5,
            ("candidate",),
            "candidate",
            "its checkpoint from layout to layout (1, 2 and 4 ranks) and back",
            "own processes for every layout",
            gate="reshard",
        ),
        Phase(
            "worker-loss",
            6,
            ("candidate",),
            "candidate",
            "the recipe, attacked: ranks, launcher, disk and checkpoints; it must go on",
            "own processes, a heartbeat and an injector beside them",
            gate="worker-loss",
        ),
        Phase(
            "cross-backend",
            6,
            ("candidate",),
            "candidate",
            "its weights to Hugging Face, through Megatron-Core's own checkpoint, and back",
            "own processes for every leg: two backends never share one",
            gate="cross-backend",
        ),
        Phase(
            "upgrade",
            6,
            ("prepare",),
            "candidate",
            "a checkpoint of one stack continued on another (--from-env, --to-env)",
            "own processes on each stack",
            gate="upgrade",
        ),
        Phase(
            "compare",
            8,
            ("reference", "candidate"),
            "compare",
            "logits, gradients, first update and routing of both sides, against an fp64 oracle",
            "one process: needs neither side's libraries",
        ),
        Phase("judge", 9, ("compare",), "certify", "records to verdict", "in certify itself"),
        Phase("report", 10, ("judge",), "certify", "the page", "one process"),
    )
}


def choose(names: Iterable[str] | None, required: Container[str] = ()) -> tuple[str, ...]:
    """The phases to run, in order: those named and all that they need; for None the usual ones.

    required: gates that the scale requires, whose phases are usual then. Where nothing is named
    but phases of such gates, their gates alone are judged, without a whole campaign.
    Raises UsageError for an unknown name.
    """
    if names is None:
        return tuple(n for n, p in PHASES.items() if not p.gate or p.gate in required)
    names = [name.strip() for name in names]
    alone = all(name in PHASES and PHASES[name].gate for name in names)
    wanted: set[str] = set()
    frontier = list(names)
    while frontier:
        name = frontier.pop()
        if name not in PHASES:
            near = get_close_matches(name, PHASES, n=1)
            raise UsageError(
                f"unknown phase {name!r}",
                where="--phases",
                expected=", ".join(PHASES),
                hint=f"did you mean {near[0]}?" if near else "certify run --list-phases",
            )
        if name not in wanted:
            wanted.add(name)
            frontier += PHASES[name].needs
    if alone:
        wanted.add("judge")
    return tuple(name for name in PHASES if name in wanted)


def requested_gates(phases: Iterable[str]) -> tuple[str, ...]:
    """The gates that phases were chosen for, as the plan names them."""
    return tuple(PHASES[name].gate for name in phases if PHASES[name].gate)


def judged_alone(phases: Iterable[str]) -> tuple[str, ...]:
    """Gates that are all that these phases are for; none where a whole comparison is judged."""
    phases = tuple(phases)
    return () if "compare" in phases or "judge" not in phases else requested_gates(phases)


def waves(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The chosen phases grouped by wave, in order."""
    by_wave: dict[int, list[str]] = {}
    for name in names:
        by_wave.setdefault(PHASES[name].wave, []).append(name)
    return [tuple(by_wave[wave]) for wave in sorted(by_wave)]
