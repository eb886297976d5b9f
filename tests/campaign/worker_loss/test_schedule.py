"""What will be done to a run is fixed by a seed, before launch."""

from __future__ import annotations

from certify.campaign.worker_loss.schedule import IN_A_STEP, KINDS, schedule, steps_needed


def test_every_kind_comes_once_before_any_comes_again() -> None:
    found = schedule(2 * len(KINDS) + 1, 7, 2, 5)
    kinds = [injection.kind for injection in found]
    assert sorted(kinds[: len(KINDS)]) == sorted(KINDS)
    assert sorted(kinds[len(KINDS) : 2 * len(KINDS)]) == sorted(KINDS)
    assert [injection.number for injection in found] == list(range(1, len(found) + 1))


def test_the_seed_decides_everything() -> None:
    assert schedule(20, 7, 4, 5) == schedule(20, 7, 4, 5) != schedule(20, 8, 4, 5)
    ranks = {injection.rank for injection in schedule(60, 7, 4, 5)}
    assert ranks == {0, 1, 2, 3}


def test_a_kind_with_a_place_happens_there() -> None:
    for injection in schedule(40, 3, 2, 5):
        place = KINDS[injection.kind]
        assert injection.mark == place or (place is None and injection.mark in IN_A_STEP)
        assert injection.gap >= 1
    damaged = [i for i in schedule(40, 3, 2, 5) if i.kind == "corrupt-checkpoint"]
    assert all(injection.gap > 5 for injection in damaged)
    assert steps_needed(damaged, 5) >= sum(i.gap for i in damaged)
