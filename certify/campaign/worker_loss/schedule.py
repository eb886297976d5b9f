"""What will be done to a run: a seeded list of injections, part of the plan."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from certify.records import MARKS

# kind -> where the rank must be (its stamp's mark); None: anywhere in a step.
KINDS: dict[str, str | None] = {
    "kill-data": "data",
    "kill-forward": "forward",
    "kill-backward": "backward",
    "kill-optimizer": "optimizer",
    "kill-save": "save",
    "hang": None,
    "kill-launcher": None,
    "disk-full": "save",
    "corrupt-checkpoint": None,
}
IN_A_STEP = tuple(mark for mark in MARKS if mark not in ("start", "save", "end"))


@dataclass(frozen=True)
class Injection:
    """number: from 1; mark: where the rank is when it happens; gap: steps that the run trains
    between its last start and this, at least."""

    number: int
    kind: str
    rank: int
    mark: str
    gap: int


def schedule(count: int, seed: int, world_size: int, save_every: int) -> list[Injection]:
    """`count` injections: every kind once before any is repeated, in an order of the seed."""
    draw = random.Random(seed)
    found: list[Injection] = []
    while len(found) < count:
        kinds = list(KINDS)
        draw.shuffle(kinds)
        for kind in kinds[: count - len(found)]:
            mark = KINDS[kind] or draw.choice(IN_A_STEP)
            rank, gap = draw.randrange(world_size), draw.randint(1, save_every)
            # A checkpoint is damaged after one was made.
            gap += save_every if kind == "corrupt-checkpoint" else 0
            found.append(Injection(len(found) + 1, kind, rank, mark, gap))
    return found


def steps_needed(injections: list[Injection], save_every: int) -> int:
    """Steps after which surely all injections have happened: none lets the run train more than
    its gap and, where it waits for a save, the way to the next one."""
    return sum(injection.gap + save_every for injection in injections) + save_every


def parsed(rows: list[dict[str, Any]]) -> list[Injection]:
    """Injections from JSON."""
    return [Injection(**row) for row in rows]
