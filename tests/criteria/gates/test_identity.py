"""plan-followed: whose records these are, whether each run is its own, and whose code it ran."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from certify.records import Component, Header, Modules, Step, Topology
from tests.criteria.gates import Row, expect
from tests.criteria.synthetic import Campaign

GATE = "plan-followed"


def to(phase: str, kind: type, ranks: tuple[int, ...] | None = None, **values: Any) -> Any:
    return lambda c: c.edit(
        phase,
        lambda r: isinstance(r, kind),
        lambda r: dataclasses.replace(r, **values),
        ranks,
    )


def part(phase: str, name: str, **values: Any) -> Any:
    return lambda c: c.edit(
        phase,
        lambda r: isinstance(r, Component) and r.part == name,
        lambda r: dataclasses.replace(r, **values),
    )


def without(phase: str, name: str) -> Any:
    return lambda c: c.drop(phase, lambda r: isinstance(r, Component) and r.part == name)


def each(*changes: Any) -> Any:
    return lambda c: [change(c) for change in changes]


def control_of_another_run(c: Campaign) -> None:
    header, *rest = c.controls["optimizer-dropped"][1]
    assert isinstance(header, Header)
    c.controls["optimizer-dropped"][1] = [dataclasses.replace(header, run_id="c0-resume"), *rest]


IDENTITY: list[Row] = [
    (
        to("candidate", Header, run_id="c1-reference"),
        "FAIL",
        "candidate rank-00000: its header is of run c1-reference, planned c1-candidate",
    ),
    (to("candidate", Header, ranks=(1,), run_id="c0-candidate"), "FAIL", "of run c0-candidate"),
    (to("candidate-again", Header, run_id="c1-candidate"), "FAIL", "planned c1-candidate-again"),
    (to("resume", Header, run_id="c1-candidate"), "FAIL", "planned c1-resume"),
    (to("compare", Header, run_id="c0-compare"), "FAIL", "planned c1-compare"),
    (to("reference", Header, run_id="c0-reference-again"), "FAIL", "of run c0-reference-again"),
    (control_of_another_run, "FAIL", "of run c0-resume, planned c1-resume"),
    # The reference of an earlier campaign may stand for this one's.
    (to("reference", Header, run_id="c0-reference-a2"), "PASS", ""),
    (to("candidate", Header, role="reference"), "FAIL", "role is reference, plan candidate"),
    (to("reference-again", Header, role="candidate"), "FAIL", "role is candidate, plan reference"),
    (to("resume", Header, role="reference"), "FAIL", "role is reference, plan candidate"),
    (to("compare", Header, role="candidate"), "FAIL", "role is candidate, plan compare"),
    (to("candidate-again", Header, backend="other"), "FAIL", "backend is other, plan fsdp2"),
    (to("candidate", Header, world_size=4), "FAIL", "world_size is 4, plan 2"),
    (lambda c: c.runs["resume"].pop(1), "INCONCLUSIVE", "resume has no records of rank 1"),
    (
        lambda c: c.plan["sides"]["reference"].update(world_size=2),
        "FAIL",
        "reference rank-00000: world_size is 1, plan 2",
    ),
    (
        lambda c: c.plan["sides"]["candidate"].update(world_size=1),
        "FAIL",
        "candidate rank-00000: world_size is 2, plan 1",
    ),
    (to("candidate", Topology, ranks=(1,), world_size=4), "FAIL", "process group has 4 ranks"),
    (to("resume", Topology, groups={"world": [0]}), "FAIL", "world group is not ranks 0 to 1"),
    (
        lambda c: c.drop_kind("reference", Topology),
        "INCONCLUSIVE",
        "reference rank 0 recorded no topology",
    ),
    (lambda c: c.plan.pop("sides"), "INCONCLUSIVE", "does not say what its two sides run on"),
]


def copied(source: str, target: str) -> Any:
    """The records of a run, byte for byte but for what its header must say."""

    def change(c: Campaign) -> None:
        for rank, body in c.runs[target].items():
            there = c.runs[source][rank if rank in c.runs[source] else 0]
            c.runs[target][rank] = [body[0], *there[1:]]

    return change


def one_process(first: str, second: str) -> Any:
    def change(c: Campaign) -> None:
        there = c.header(first, 0)
        to(second, Header, ranks=(0,), pid=there.pid, start_unix_s=there.start_unix_s)(c)

    return change


def faster(c: Campaign) -> None:
    """The same times in a few steps are chance."""
    for step in (1, 2):
        there = c.step("candidate", step).step_time_s
        c.edit_step("candidate-again", step, step_time_s=there)


FRESH: list[Row] = [
    (
        one_process("candidate", "candidate-again"),
        "FAIL",
        "candidate-again rank 0 and candidate rank 0 are one process (pid 0): not a repetition",
    ),
    (one_process("reference", "reference-again"), "FAIL", "reference-again rank 0 and reference"),
    (one_process("candidate", "reference"), "FAIL", "reference rank 0 and candidate rank 0"),
    (one_process("candidate", "resume"), "FAIL", "resume rank 0 and candidate rank 0"),
    (copied("candidate", "candidate-again"), "FAIL", "candidate-again has the step times of"),
    (copied("reference", "reference-again"), "FAIL", "a copy, not a repetition"),
    (faster, "PASS", ""),
]

MODEL = "transformers.models.qwen3_moe.modeling_qwen3_moe"
INDEPENDENT: list[Row] = [
    (
        each(
            to("candidate", Header, backend="mcore"),
            lambda c: c.plan["sides"]["candidate"].update(backend="mcore"),
        ),
        "FAIL",
        "both sides run on the backend mcore",
    ),
    (
        part("candidate", "optimizer", module="megatron.core.optimizer.optimizer"),
        "FAIL",
        "both sides take their optimizer from megatron.core.optimizer.optimizer",
    ),
    (
        each(
            part("candidate", "model", source_sha256="cc" * 32),
            part("reference", "model", source_sha256="cc" * 32),
        ),
        "FAIL",
        "both sides take their model from transformers.models",
    ),
    (part("reference", "model", module=MODEL), "FAIL", "both sides take their model from"),
    (
        part("reference", "model", package="runner", module="runner.model"),
        "FAIL",
        "the reference's model is runner.model.GPTModel of runner, not of megatron",
    ),
    (part("reference-again", "optimizer", package="torch"), "FAIL", "of torch, not of megatron"),
    (
        part("reference", "scheduler", package="runner", module="runner.optim"),
        "FAIL",
        "the reference's scheduler is runner.optim",
    ),
    (
        each(without("reference", "scheduler"), without("reference-again", "scheduler")),
        "INCONCLUSIVE",
        "reference rank 0 did not record whose scheduler it trained with",
    ),
    (
        lambda c: c.edit(
            "candidate",
            lambda r: isinstance(r, Component) and r.part == "model",
            lambda r: dataclasses.replace(r, part="other"),
            ranks=(1,),
        ),
        "INCONCLUSIVE",
        "candidate rank 1 did not record whose model it trained with",
    ),
    (
        each(
            to("reference", Header, backend="x"),
            part("reference", "model", package="runner", module="runner.model"),
        ),
        "FAIL",
        "runner.model.GPTModel of runner, which is not published code",
    ),
    (
        to("candidate", Modules, ranks=(1,), loaded=["torch", "megatron"]),
        "FAIL",
        "candidate rank 1: the candidate had megatron, the reference's package, loaded",
    ),
    (to("resume", Modules, loaded=["megatron.core"]), "FAIL", "resume rank 0: the candidate had"),
    (to("candidate", Modules, ranks=(1,), loaded=[]), "INCONCLUSIVE", "candidate rank 1 did not"),
    (to("reference", Modules, trained_classes=[]), "INCONCLUSIVE", "reference rank 0 did not"),
    (
        lambda c: c.edit("candidate", lambda r: isinstance(r, Modules), lambda r: None, ranks=(1,)),
        "INCONCLUSIVE",
        "candidate rank 1 did not record what it had loaded and trained",
    ),
]


@pytest.mark.parametrize("row", [*IDENTITY, *FRESH, *INDEPENDENT])
def test_table(row: Row) -> None:
    expect(GATE, row)


def test_a_reference_of_an_earlier_campaign_is_noted() -> None:
    campaign = to("reference", Header, run_id="c0-reference")(Campaign())
    verdict = campaign.judge()
    assert verdict.verdict == "PASS"
    assert verdict.notes == ("reference: its records say that they are of the run c0-reference",)


def test_ranks_of_two_campaigns_are_no_run() -> None:
    campaign = Campaign()
    campaign.plan["sides"]["reference"]["world_size"] = 2
    header = dataclasses.replace(campaign.header("reference", 0), world_size=2)
    body = [r for r in campaign.runs["reference"][0][1:] if not isinstance(r, Step)]
    for rank, run_id in ((0, "c0-reference"), (1, "c9-reference")):
        own = dataclasses.replace(header, run_id=run_id, rank=rank, pid=9000 + rank)
        campaign.runs["reference"][rank] = [own, *body]
    details = [check.detail for check in campaign.gate(GATE).checks]
    assert any("its ranks are of the runs c0-reference and c9-reference" in d for d in details)


def test_a_rank_beside_the_world() -> None:
    campaign = Campaign()
    campaign.runs["candidate"][2] = [
        dataclasses.replace(campaign.header("candidate", 2), rank=2),
        *campaign.runs["candidate"][1][1:],
    ]
    expect(GATE, (lambda c: None, "FAIL", "candidate: rank 2 beside a world of 2"), campaign)


def plain_reference() -> Campaign:
    """The reference trains the candidate's own class in the plain backend, as planned."""
    campaign = Campaign()
    campaign.plan["sides"]["reference"]["backend"] = "plain"
    model = next(
        r for r in campaign.runs["candidate"][0] if isinstance(r, Component) and r.part == "model"
    )
    for phase in ("reference", "reference-again"):
        to(phase, Header, backend="plain")(campaign)
        same = dataclasses.asdict(model)
        part(phase, "model", **{key: same[key] for key in ("class_name", "module", "package")})(
            campaign
        )
    return campaign


def test_one_class_on_both_sides_is_shown_where_the_plan_says_so() -> None:
    campaign = plain_reference()
    (check,) = [c for c in campaign.gate(GATE).checks if c.name == "independent sides"]
    assert check.value == "one class"
    assert "a fault inside that class cannot show" in check.detail
    assert campaign.judge().verdict == "PASS"


def test_a_plain_reference_of_our_own_code_decides_nothing() -> None:
    campaign = plain_reference()
    part("reference", "model", module="runner.own.x", package="runner")(campaign)
    expect(GATE, (lambda c: None, "INCONCLUSIVE", "which is not published code"), campaign)


def megatron_candidate() -> Campaign:
    """Megatron-Core is certified against the stock class of transformers in the plain loop."""
    campaign = Campaign()
    campaign.plan["sides"]["candidate"]["backend"] = "mcore"
    campaign.plan["sides"]["reference"]["backend"] = "plain"
    stock = {side: list(campaign.runs[side][0]) for side in ("candidate", "reference")}
    for phase, backend, source in (
        ("candidate", "mcore", "reference"),
        ("candidate-again", "mcore", "reference"),
        ("resume", "mcore", "reference"),
        ("reference", "plain", "candidate"),
        ("reference-again", "plain", "candidate"),
    ):
        to(phase, Header, backend=backend)(campaign)
        for found in stock[source]:
            if isinstance(found, Component):
                part(phase, found.part, **dataclasses.asdict(found))(campaign)
            if isinstance(found, Modules):
                to(phase, Modules, **dataclasses.asdict(found))(campaign)
    for streams in campaign.controls.values():
        for rank, (header, *rest) in streams.items():
            streams[rank] = [dataclasses.replace(header, backend="mcore"), *rest]
    return campaign


def test_megatron_against_transformers_is_independent() -> None:
    campaign = megatron_candidate()
    (check,) = [c for c in campaign.gate(GATE).checks if c.name == "independent sides"]
    assert check.outcome == "ok", check.detail
    assert campaign.judge().verdict == "PASS"


@pytest.mark.parametrize(
    "row",
    [
        (
            to("candidate", Modules, loaded=["torch", "megatron", "transformers"]),
            "FAIL",
            "candidate rank 0: the candidate had transformers, the reference's package, loaded",
        ),
        (
            part("reference", "model", package="megatron", module="megatron.core.models.gpt"),
            "FAIL",
            "the candidate had megatron, the reference's package, loaded",
        ),
        (
            part("reference", "optimizer", module="megatron.core.optimizer.optimizer"),
            "FAIL",
            "both sides take their optimizer from megatron.core.optimizer.optimizer",
        ),
    ],
)
def test_megatron_with_code_of_both_sides_fails(row: Row) -> None:
    expect(GATE, row, megatron_candidate())
