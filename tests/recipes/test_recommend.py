"""The ranking of rows for a cluster: a table of small cases, and the real list."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import pytest

from certify.cli import main
from certify.plan.make import make
from certify.plan.memory import GIB
from certify.plan.of_name import Options, question
from certify.recipes.fit import planned_fit
from certify.recipes.load import load_branches, load_recipe, load_support_list
from certify.recipes.recommend import (
    REASONS,
    Offer,
    Reason,
    Recommendation,
    Remark,
    Wanted,
    folded,
    offers_of,
    recommend,
)
from certify.recipes.rows import Branch, Row

TODAY = date(2026, 11, 30)
BRANCHES = {
    "master": Branch("master", "", "", "", "living", ""),
    "2.3.0": Branch("2.3.0", "v2.3.0", "2025-12-30", "2026-06-30", "published", ""),
}


def row(name: str, number: int = 0, **changes: Any) -> Row:
    fields: dict[str, Any] = {
        "id": name, "row": number, "category": "dense", "model": name, "model_link": "",
        "size": "7B", "weights": "", "script": "", "script_link": "", "seq": "32k",
        "backend_published": "Mcore", "cluster": "2x8", "version": "", "version_link": "",
        "contributor": "Ascend", "status": "Pass", "supported_until": "master", "product": "A2",
    }  # fmt: skip
    return Row(**{**fields, **changes})


def offer(of: Row, **changes: Any) -> Offer:
    fields: dict[str, Any] = {
        "row": of, "stage": "pretrain", "script": f"examples/{of.id}.sh", "branch": "master",
        "product": of.product, "seq_length": of.seq_length, "nodes": of.nodes,
        "npus_per_node": of.npus_per_node,
    }  # fmt: skip
    return Offer(**{**fields, **changes})


WANTED = Wanted("A2", 2, 8, 32768)


def advise(rows: list[Row], wanted: Wanted = WANTED, **more: Any) -> Recommendation:
    return recommend(wanted, {one: [offer(one)] for one in rows}, BRANCHES, TODAY, **more)


def ids(found: Recommendation) -> list[str]:
    return [one.offer.row.id for one in found.fitting]


def test_order_follows_the_published_advice() -> None:
    rows = [
        row("legacy-pass", 0, backend_published="Legacy"),
        row("retired-pass", 1, supported_until="2.3.0"),
        row("fsdp2-test", 2, backend_published="FSDP2", status="Test"),
        row("mcore-test", 3, status="Test"),
        row("fsdp2-pass", 4, backend_published="FSDP2"),
        row("mcore-pass", 5),
    ]
    found = advise(rows)
    assert ids(found) == [
        "mcore-pass", "fsdp2-pass", "mcore-test", "fsdp2-test", "retired-pass", "legacy-pass",
    ]  # fmt: skip
    assert [one.standing for one in found.fitting[-2:]] == ["retired", "legacy"]
    assert found.fitting[-2].retired_on == "2026-06-30"
    native = advise(rows, Wanted("A2", 2, 8, 32768, pytorch_native=True))
    assert ids(native)[:4] == ["fsdp2-pass", "fsdp2-test", "mcore-pass", "mcore-test"]
    assert ids(native)[4:] == ["retired-pass", "legacy-pass"]


def test_nearest_length_and_whole_cluster_come_first() -> None:
    rows = [
        row("longer", 0, seq="128k"),
        row("half", 1, cluster="1x8"),
        row("exact", 2),
    ]
    found = advise(rows)
    assert ids(found) == ["exact", "half", "longer"]
    assert found.fitting[1].notes == ("made for 8 of the 16 NPUs",)
    assert found.fitting[2].notes == ("made for 128k, longer than asked",)


@pytest.mark.parametrize(
    ("changes", "code", "detail"),
    [
        ({"product": "A3"}, "product", "A3"),
        ({"seq": "4k"}, "sequence", "4k"),
        ({"cluster": "4x8"}, "cluster", "4x8"),
        ({"cluster": "1x16"}, "node", "1x16"),
    ],
)
def test_why_not(changes: dict[str, str], code: str, detail: str) -> None:
    found = advise([row("one", **changes)])
    assert not found.fitting
    assert found.refused[0].reasons == (Reason(code, detail),)
    assert folded(found.refused) == {code: [("one", detail)]}
    assert code in REASONS


def test_every_reason_is_kept() -> None:
    found = advise([row("one", product="A3", seq="4k", cluster="4x8")])
    assert [reason.code for reason in found.refused[0].reasons] == [
        "product",
        "sequence",
        "cluster",
    ]


def test_small_memory_speaks_against_the_list() -> None:
    found = advise([row("one")], Wanted("A2", 2, 8, 32768, memory_mb=32768))
    assert found.refused[0].reasons == (Reason("memory", "64 GB assumed, 32 GB here"),)
    assert ids(advise([row("one")], Wanted("A2", 2, 8, 32768, memory_mb=65536))) == ["one"]


def test_a_plan_can_be_plugged_in() -> None:
    def plan(one: Offer, _wanted: Wanted) -> Reason | None:
        return Reason("plan", "81.2 GB of 64") if one.row.id == "big" else None

    found = advise([row("big"), row("small", 1)], fits=plan)
    assert ids(found) == ["small"]
    assert found.refused[0].reasons == (Reason("plan", "81.2 GB of 64"),)


def test_one_script_is_named_once() -> None:
    short, long = row("m-8k", 0, seq="8k"), row("m-32k", 1)
    tune = "examples/tune_m_32k_full.sh"
    offers = {one: [offer(one, script=tune, seq_length=32768)] for one in (short, long)}
    found = recommend(WANTED, offers, BRANCHES, TODAY)
    assert ids(found) == ["m-8k"]
    assert found.refused[0].reasons == (Reason("same-script", "m-8k"),)


def test_no_script_for_the_stage() -> None:
    found = recommend(WANTED, {row("one"): []}, BRANCHES, TODAY)
    assert found.refused[0].reasons[0].code == "stage"


@pytest.mark.parametrize("stage", ["pretrain", "sft", "lora", "dpo"])
def test_every_row_of_the_list_is_ranked_or_refused(stage: str) -> None:
    wanted = Wanted("A3", 64, 16, 2048, stage=stage)
    rows = load_support_list()
    offers = {one: offers_of(one, load_recipe(one.id), stage) for one in rows}
    found = recommend(wanted, offers, load_branches(), TODAY)
    named = [*ids(found), *(one.row.id for one in found.refused)]
    assert sorted(named) == sorted(one.id for one in rows)
    assert found.fitting
    standings = [one.standing for one in found.fitting]
    assert standings == sorted(standings, key=("current", "retired", "legacy").index)


def test_the_larger_of_list_and_script_is_needed() -> None:
    """internlm2-20b-32k: the list says 1x8, the script starts 2x8."""
    one = next(r for r in load_support_list() if r.id == "internlm2-20b-32k-mcore")
    (found,) = offers_of(one, load_recipe(one.id), "pretrain")
    assert (one.cluster, found.nodes, found.npus_per_node) == ("1x8", 2, 8)
    assert found.differs == ("list says 1x8, script 2x8 (cluster)",)


def test_a_variant_needs_what_its_own_script_says() -> None:
    one = next(r for r in load_support_list() if r.id == "qwen3-235b-a22b-4k-mcore")
    recipe = load_recipe(one.id)
    (lora,) = offers_of(one, recipe, "lora")
    assert (lora.product, lora.seq_length, lora.nodes, lora.npus_per_node) == ("A2", 32768, 8, 8)
    assert load_recipe(lora.recipe).parallel.pp == 8
    assert {one.seq_length // 1024 for one in offers_of(one, recipe, "sft")} == {4, 64, 128, 256}


def _planned(row_id: str, stage: str = "pretrain", memory_mb: int | None = None) -> object:
    one = next(r for r in load_support_list() if r.id == row_id)
    wanted = Wanted(one.product, one.nodes, one.npus_per_node, 4096, stage, memory_mb=memory_mb)
    return planned_fit(offers_of(one, load_recipe(row_id), stage)[0], wanted)


def test_the_plan_decides_by_the_memory_of_the_device() -> None:
    """As `certify plan` answers: the need is that of the plan, the limit that of the criteria."""
    asked = question("qwen3-0p6b-4k-mcore", None, Options())
    need = make(asked.setting, asked.layout).memory.total / GIB
    limit = 32 * asked.setting.usable
    assert need < limit
    fits = _planned("qwen3-0p6b-4k-mcore", memory_mb=32768)
    assert isinstance(fits, Remark)
    assert f"{need:.1f} GiB of {limit:.1f} usable" in fits.text
    small = _planned("qwen3-0p6b-4k-mcore", memory_mb=8192)
    assert isinstance(small, Reason)
    assert small.code == "plan"
    assert f"{need:.1f} GiB of {8 * asked.setting.usable:.1f} usable" in small.detail


def test_what_no_formula_knows_refuses_nobody() -> None:
    lora = _planned("qwen3-235b-a22b-4k-mcore", "lora", 1024)
    assert lora == Remark("memory not planned: LoRA trains adapters only")
    mamba = _planned("mamba3-4k-mcore", memory_mb=1024)
    assert isinstance(mamba, Remark)
    assert mamba.text.startswith("memory not planned: no formula covers")


def test_every_row_is_planned_or_the_reason_is_said() -> None:
    """Rows that no formula answers are those of which a fact is unpublished or uncovered."""
    unplanned = set()
    for one in load_support_list():
        for offer_ in offers_of(one, load_recipe(one.id), "pretrain"):
            answer = planned_fit(offer_, Wanted("A2", 1, 8, 4096))
            if isinstance(answer, Remark) and answer.text.startswith("memory not planned"):
                unplanned.add(one.id)
    assert unplanned == {
        "deepseek-v4-flash-284b-4k-mcore",
        "gpt4-moe-175b-128k-mcore",
        "internlm-65b-2k-legacy",
        "mamba2-2p7b-4k-mcore",
        "mamba2-8b-4k-mcore",
        "mamba2hybrid-8b-4k-mcore",
        "mamba3-4k-mcore",
        "step3p5-flash-moe-196b-4k-fsdp2",
    }


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["recipes", "recommend", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--product", "A3", "--nodes", "16", "--npus", "16", "--model", "qwen3-235b")
    code, out, _ = call(capsys, *words)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "2 of 2 rows fit pretrain at 4096 tokens on 16x16 A3"
    assert lines[1] == "  1  qwen3-235b-a22b-4k-mcore  Mcore Pass, 4k, 16x16 A3"
    assert lines[2].endswith("pretrain_qwen3_235b_a22b_4k_A3_ptd.sh (branch master)")
    assert re.fullmatch(r" +planned: \d+\.\d GiB of 60\.8 usable an NPU, mostly \w+", lines[3])
    assert lines[4] == "  2  qwen3-235b-a22b-4k-fsdp2  FSDP2 Test, 4k, 16x16 A3"
    assert lines[-1].startswith("memory: planned for the 64 GB that the list assumes;")
    code, out, _ = call(capsys, *words, "--pytorch-native", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "certify.recipes/1")
    assert [one["backend"] for one in document["recommended"]] == ["fsdp2", "mcore"]


def test_command_when_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--product", "910B4", "--nodes", "2", "--seq", "32k", "--model", "qwen2.5")
    code, out, _ = call(capsys, *words)
    assert code == 1
    assert out.startswith("0 of 11 rows fit pretrain at 32768 tokens on 2x8 A2\nnot these:\n")
    assert "not by the memory plan: qwen2p5-0p5b-32k-mcore (43.0 GiB of 30.4 usable" in out
    code, out, _ = call(capsys, *words, "--json")
    document = json.loads(out)
    assert (code, document["recommended"]) == (1, [])
    reasons = {one["id"]: one["reasons"][0]["code"] for one in document["refused"]}
    assert reasons["qwen2p5-72b-32k-mcore"] == "cluster"
    assert reasons["qwen2p5-7b-32k-mcore"] == "plan"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("--product", "A9"), "--product"),
        (("--product", "A2", "--seq", "4x"), "--seq"),
        (("--product", "A2", "--seq", "0"), "--seq"),
        (("--product", "A2", "--nodes", "0"), "--nodes"),
        (("--product", "A2", "--limit", "-1"), "--limit"),
        (("--product", "A2", "--model", "qwne3"), "--model"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], where: str) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert f"where: {where}" in err
