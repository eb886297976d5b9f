"""The page of a campaign: what it says, what it refuses to say, and what it may never do."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

from certify.errors import InfrastructureError, UsageError
from certify.store.rows import Run
from reports.campaign import Bar, build, interval_bar
from reports.documents import verdict_document
from tests.reports.conftest import Page, edit
from tests.reports.make_campaign import KINDS, make_campaign


@pytest.mark.parametrize(
    ("kind", "word", "said"),
    [
        ("pass", "PASS", ["“mechanics verified (tiny, cpu)”", "moves no published status"]),
        (
            "fail",
            "FAIL",
            [
                "entitles to no claim: the gate loss-curve failed.",
                "drift +0.00348 [+0.00301, +0.00395] lies outside the margin of 0.002",
                "A fault was injected on purpose: lr-off-by-one.",
            ],
        ),
        (
            "inconclusive",
            "INCONCLUSIVE",
            ["entitles to no claim: the gate resume could not be decided.", "left no records"],
        ),
        (
            "interrupted",
            "NO VERDICT",
            [
                "The campaign was interrupted in the phase candidate: 3 of 8 phases were done.",
                "The same command continues it where it stopped.",
                "the records of candidate are cut off after step 73: the writer was killed",
                "The campaign was not judged",
            ],
        ),
    ],
)
def test_the_head_says_what_was_found(made, kind, word, said):
    page = made(kind)[1]
    assert page.by_id("verdict-word").text == word
    assert page.all("title")[0].text == f"{word} · qwen3-235b-a22b-4k-fsdp2 · tiny, cpu"
    assert "at scale tiny on cpu" in page.text
    for words in said:
        assert words in page.text
    assert ("mechanics verified" in page.text) is (kind == "pass")


def test_every_number_of_the_verdict_is_on_the_page(made):
    text = made("pass")[1].text
    for words in ("1.9×10⁻⁸", "−4.1×10⁻⁸ … 8×10⁻⁸", "0.002", "20,480", "0.9999987", "8.1×10⁻⁷"):
        assert words in text
    assert "7 of 7 required gates passed" in text
    assert "NOT REQUIRED" in text


def test_both_sides_scaling_phases_and_commands_are_on_the_page(made):
    text = made("pass")[1].text
    for words in (
        "Qwen3MoeForCausalLM",
        "models/gpt/gpt_model.py",
        "megatron-core 0.16.1",
        "ep_fsdp {0} {1}",
        "4 of 4 right: all_reduce_sum, reduce_scatter_sum",
        "Packages (0 of 6 differ, 1 on one side only)",
        "Intel(R) Xeon(R) Processor 测试",
        "model.moe_intermediate_size 1,536 24 ratio to hidden as published",
        "training.warmup_steps not stated 10",
        "Kept as published: 4 values",
        "reference-again completed 1 25.2 s 24.0 s",
        "2 min 32 s",
        "certify run qwen3-235b --backend fsdp2 --data 'my data.txt'",
        "certify judge evidence",
    ):
        assert words in text


@pytest.mark.parametrize("kind", KINDS)
def test_no_script_no_request_and_only_the_style_that_the_policy_names(made, kind):
    page = made(kind)[1]
    assert page.all("script", "iframe", "object", "embed", "img", "form", "base") == []
    (policy,) = [
        e.attributes["content"]
        for e in page.all("meta")
        if e.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    digest = base64.b64encode(hashlib.sha256(page.all("style")[0].text.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert len(page.all("style")) == 1
    for element in page.elements:
        assert not [name for name in element.attributes if name.startswith("on")]
        assert "style" not in element.attributes
        for name in ("href", "src", "xlink:href"):
            target = element.attributes.get(name) or ""
            assert not re.match(r"(?i)[a-z]+:|//", target) or target == "data:,"
    assert "@import" not in page.raw
    assert not re.search(r"url\((?!#)", page.raw)


@pytest.mark.parametrize("kind", KINDS)
def test_landmarks_headings_tables_and_pictures_are_named(made, kind):
    page = made(kind)[1]
    assert [len(page.all(tag)) for tag in ("main", "h1", "nav", "header", "footer")] == [1] * 5
    levels = [int(e.tag[1]) for e in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert len(page.all("table")) == len(page.all("caption"))
    for header in page.all("th"):
        assert header.attributes.get("scope") in ("col", "row", "rowgroup")
        assert header.text.strip()
    for picture in page.all("svg"):
        named = picture.attributes.get("role") == "img"
        assert named or picture.attributes.get("aria-hidden") == "true"
    identities = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(identities) == len(set(identities))
    for element in page.elements:
        for name in ("aria-labelledby", "href"):
            value = element.attributes.get(name) or ""
            for target in value.split() if name != "href" else [value]:
                if name == "href" and not target.startswith("#"):
                    continue
                assert target.lstrip("#") in identities


def test_markup_in_any_name_stays_text(tmp_path):
    evil = "<script>alert(1)</script><b>'\"&模型"
    folder = make_campaign(tmp_path / "c", "fail", recipe=evil)

    def spoil_campaign(body):
        body.update(scale=evil, device=evil, inject=evil, stage=evil, command=["x", evil])
        for phase in body["phases"]:
            phase["reason"] = evil

    def spoil_verdict(body):
        for gate in body["gates"]:
            gate.update(gate=evil + gate["gate"], reason=evil, unit=evil, statistic=evil)
            for check in gate["checks"]:
                check.update(name=evil, detail=evil, unit=evil)

    def spoil_recipe(body):
        body.update(source=evil, published={"name": evil})
        for row in body["scaling"]:
            row.update(key=evil, published=evil, rule=evil)

    edit(folder / "campaign.json", spoil_campaign)
    edit(folder / "verdict.json", spoil_verdict)
    edit(folder / "recipe.json", spoil_recipe)
    for records in (folder / "runs").glob("*/records/*.jsonl"):
        spoiled = records.read_text(encoding="utf-8").replace("Qwen3MoeForCausalLM", "<i>x</i>")
        records.write_text(spoiled.replace("2.4.6", "<i>2</i>"), encoding="utf-8")
    page = Page(build(folder, tmp_path / "page"))
    assert page.all("script", "b", "i") == [e for e in page.all("b") if e.text in (evil,)]
    assert page.all("h1")[0].text == evil
    assert "<i>x</i>" in page.text
    assert "<script>" not in page.raw


def test_the_folder_stands_alone_and_its_digests_hold(made, tmp_path):
    moved = tmp_path / "sent"
    shutil.copytree(made("pass")[0] / "page", moved)
    page = Page(moved / "index.html")
    links = [e.attributes["href"] for e in page.all("a")]
    files = [unquote(link) for link in links if not link.startswith("#")]
    assert "figures/curves.csv" in files
    assert len([name for name in files if name.endswith(".jsonl")]) == 11
    for name in files:
        assert (moved / name).is_file()
    for line in (moved / "evidence" / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((moved / "evidence" / name).read_bytes()).hexdigest() == digest
        assert digest in page.text


def test_a_page_can_be_built_from_the_evidence_of_a_page(made, tmp_path):
    again = build(made("pass")[0] / "page" / "evidence", tmp_path / "again")
    assert again.read_text(encoding="utf-8") == made("pass")[1].raw


def test_building_twice_gives_the_same_bytes(made, tmp_path):
    folder = made("fail")[0]
    build(folder, tmp_path / "again")
    first = {p.relative_to(folder / "page"): p.read_bytes() for p in files(folder / "page")}
    second = {p.relative_to(tmp_path / "again"): p.read_bytes() for p in files(tmp_path / "again")}
    assert first == second


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_nothing_but_a_campaign_document_still_makes_a_page(tmp_path):
    folder = make_campaign(tmp_path / "c", "interrupted")
    shutil.rmtree(folder / "runs")
    for name in ("plan.json", "recipe.json"):
        (folder / name).unlink()
    page = Page(build(folder, folder / "page"))
    for words in (
        "No run recorded a step, so there is nothing to draw.",
        "Neither side left records.",
        "The scaled recipe was not recorded.",
        "plan.json was not written",
    ):
        assert words in page.text
    assert not (folder / "page" / "figures").exists()


def test_links_are_not_followed_into_the_evidence(tmp_path):
    folder = make_campaign(tmp_path / "c", "interrupted")
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"key": "hush"}))
    (folder / "recipe.json").unlink()
    (folder / "recipe.json").symlink_to(secret)
    build(folder, tmp_path / "page")
    assert not (tmp_path / "page" / "evidence" / "recipe.json").exists()


def test_the_store_tells_the_attempts(made, tmp_path):
    lost = Run(
        *("r-candidate", "c", "candidate", "candidate", 1, "aborted", 1.0, 2.0, 3.0, 4, None),
        *(None, None, -9, "Ctrl-C"),
    )
    page = Page(build(made("interrupted")[0], tmp_path / "p", [lost]))
    assert "Every run that was reserved: 1" in page.text
    assert "r-candidate candidate 1 aborted −9 – Ctrl-C" in page.text


@pytest.mark.parametrize("out", [".", ".."])
def test_the_campaign_is_never_written_over(made, out):
    folder = made("pass")[0]
    with pytest.raises(UsageError, match="would overwrite the campaign"):
        build(folder, (folder / out).resolve())


def test_a_folder_that_cannot_be_written_is_infrastructure(made, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="cannot write the page"):
        build(made("interrupted")[0], tmp_path / "file" / "page")


def gate(**numbers):
    body = {"gate": "g", "verdict": "PASS", **numbers}
    return verdict_document({"gates": [body]}).gates[0]


def test_the_interval_is_drawn_to_scale():
    inside = interval_bar(gate(statistic=0.0, low=-0.5, high=0.5, margin=1.0))
    assert inside == Bar(12.0, 108.0, 36.0, 84.0, 60.0, True)
    outside = interval_bar(gate(statistic=2.0, low=1.5, high=2.5, margin=1.0))
    assert outside.inside is False
    assert 0 <= outside.limit_low < outside.limit_high < outside.low < outside.high <= 120
    for numbers in ({}, {"statistic": 0, "margin": 0, "low": 0, "high": 0}, {"statistic": "nan"}):
        assert interval_bar(gate(**numbers)) is None
