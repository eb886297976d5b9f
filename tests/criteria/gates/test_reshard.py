"""reshard: the same bits in every layout, and layouts that really differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from certify.records import End, Header, Topology
from tests.criteria.hops import LAYOUTS, Chain, groups
from tests.criteria.synthetic import SAVE


def as_first(chain: Chain) -> None:
    world, sizes = LAYOUTS[0]
    chain.hops["c1-reshard-2"] = {r: chain._rank(2, world, sizes, r) for r in range(world)}
    chain.plan["reshard"]["hops"][1].update(world_size=world, sizes=sizes)


def no_way_back(chain: Chain) -> None:
    del chain.hops["c1-reshard-3"]
    del chain.plan["reshard"]["hops"][2]


def other_groups(chain: Chain) -> None:
    """Four ranks that were not divided as the plan says."""
    ranks = iter(range(4))
    chain.hop(
        1,
        Topology,
        lambda t: dataclasses.replace(t, groups=groups(4, {"fsdp_size": 2}, next(ranks))),
    )


def without_plan(chain: Chain) -> None:
    del chain.plan["reshard"]


def few_worlds(chain: Chain) -> None:
    """Every layout has two ranks: nothing that is uneven on four was shown."""
    for number, sizes in ((1, {"fsdp_size": 1}), (2, {"fsdp_size": 2, "ep_size": 2})):
        chain.hops[f"c1-reshard-{number}"] = {
            rank: chain._rank(number, 2, sizes, rank) for rank in range(2)
        }
        chain.plan["reshard"]["hops"][number - 1].update(world_size=2, sizes=sizes)


def step_of(field: str, value: Any) -> Callable[[Chain], Any]:
    return lambda c: c.next_step(2, **{field: value})


ROWS: list[tuple[Callable[[Chain], Any], str, str]] = [
    (lambda c: None, "PASS", "the same bits in every layout (ranks 2, 4, 1, 2)"),
    (lambda c: c.digest(1, "load", "params", "ff" * 32), "FAIL", "hop 1: params at the load"),
    (lambda c: c.digest(3, "save", "exp_avg_sq", "ff" * 32), "FAIL", "hop 3: exp_avg_sq at the sa"),
    (
        lambda c: c.digest(2, "load", "exp_avg", None),
        "INCONCLUSIVE",
        "not recorded: hop 2: exp_avg",
    ),
    (as_first, "INCONCLUSIVE", "hop 1 and hop 2 ran in the same topology: nothing was resharded"),
    (no_way_back, "INCONCLUSIVE", "ends in another topology than it began in (hop 2)"),
    (few_worlds, "INCONCLUSIVE", "1 different numbers of ranks"),
    (other_groups, "FAIL", "hop 1 rank 0: ep_size is 1, planned 4 (and 7 more)"),
    (lambda c: c.hops.pop("c1-reshard-2"), "INCONCLUSIVE", "c1-reshard-2 left no records"),
    (lambda c: c.hops["c1-reshard-1"].pop(3), "FAIL", "hop 1: rank 3 left no records"),
    (lambda c: c.hop(1, Topology, lambda _: None), "INCONCLUSIVE", "topology of hop 1"),
    (lambda c: c.next_step(2, loss=1.0), "FAIL", "hop 2: next loss is 0."),
    (step_of("tokens_sha256", "x"), "FAIL", f"tokens_sha256 of step {SAVE + 1} is not"),
    (
        lambda c: c.hop(3, End, lambda _: None),
        "INCONCLUSIVE",
        "hop 3 rank 0 did not record its end",
    ),
    (without_plan, "INCONCLUSIVE", "the plan has no reshard"),
    (lambda c: c.drop_run("candidate"), "INCONCLUSIVE", "the run candidate left no records"),
    (
        lambda c: c.hop(2, Header, lambda h: dataclasses.replace(h, run_id="c0-reshard-2")),
        "FAIL",
        "hop 2: the records are of ('c0-reshard-2'",
    ),
]


@pytest.mark.parametrize(("spoil", "verdict", "reason"), ROWS)
def test_verdicts(spoil: Callable[[Chain], Any], verdict: str, reason: str) -> None:
    chain = Chain()
    spoil(chain)
    result = chain.gate("reshard")
    assert (result.verdict, reason in result.reason) == (verdict, True), result.reason


def test_random_states_of_other_ranks_are_not_compared() -> None:
    chain = Chain().digest(1, "load", "rng.rank-0", "ee" * 32)
    assert chain.gate("reshard").verdict == "PASS"


def test_it_is_not_required_unless_it_was_asked_for() -> None:
    chain = Chain()
    chain.plan["requested"] = []
    assert chain.gate("reshard").verdict == "NOT REQUIRED"
