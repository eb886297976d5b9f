"""The phases of a campaign, in order. Phases of one wave run side by side."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Phase:
    """needs: phases that must have run before; side: what the run is in the records, ``certify``
    for a phase that trains nothing; fresh: why it has processes of its own, or that it has not."""

    name: str
    wave: int
    needs: tuple[str, ...]
    side: str
    summary: str
    fresh: str


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
            "compare",
            5,
            ("reference", "candidate"),
            "compare",
            "logits, gradients, first update and routing of both sides, against an fp64 oracle",
            "one process: needs neither side's libraries",
        ),
        Phase("judge", 6, ("compare",), "certify", "records to verdict", "in certify itself"),
        Phase("report", 7, ("judge",), "certify", "the page", "one process"),
    )
}


def choose(names: Iterable[str] | None) -> tuple[str, ...]:
    """The phases to run, in order: those named and all that they need; all for None.

    Raises UsageError for an unknown name.
    """
    if names is None:
        return tuple(PHASES)
    wanted: set[str] = set()
    frontier = [name.strip() for name in names]
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
    return tuple(name for name in PHASES if name in wanted)


def waves(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The chosen phases grouped by wave, in order."""
    by_wave: dict[int, list[str]] = {}
    for name in names:
        by_wave.setdefault(PHASES[name].wave, []).append(name)
    return [tuple(by_wave[wave]) for wave in sorted(by_wave)]
