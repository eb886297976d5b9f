"""What the published data must hold, whatever is added later."""

from __future__ import annotations

import re

import pytest

from certify.versions import from_free_text, parse
from matrices.load import load, read_table

MATRIX = load()


def current(**parts: str) -> list[str]:
    return [
        claim.id
        for claim in MATRIX.claims
        if claim.state == "current"
        and all(claim.components.get(key) == value for key, value in parts.items())
    ]


def test_published_rows_are_there() -> None:
    assert current(torch_npu="2.7.1.post8", cann="9.1.0", torch_npu_product="26.1.0")
    assert current(torch_npu="2.10.0", cann="9.0.0")
    assert current(mindspeed_llm="26.1.0", triton_ascend="3.2.2", cann="9.1.0")
    assert current(cann="9.1.X", hdk="25.0.X")
    assert current(vllm_ascend="v0.23.0", torch_npu="2.10.0.post4")
    assert current(torch="2.7.1", torchvision="0.22.1")
    assert current(torch="2.12.0", cuda="13.0")


def test_wildcards_are_kept_as_published() -> None:
    assert current(mindspeed_llm="26.1.0", cann="8.3.RCX")
    assert current(torch_npu_product="26.1.X", cann="9.1.X")


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("mindspeed_core-0011", "contradicted"),
        ("torch_npu-0075", "superseded"),
        ("torch_npu-0150", "contradicted"),
        ("torch_npu-0068", "preview"),
        ("mindspeed_llm-0003", "upcoming"),
    ],
)
def test_states_follow_the_conflicts(name: str, state: str) -> None:
    claim = MATRIX.claim(name)
    assert claim is not None
    assert claim.state == state


def test_every_conflict_is_handled_in_words_of_ours() -> None:
    rows = {row["id"]: row for row in MATRIX.tables["conflicts"]}
    assert {f"C-{number:02d}" for number in range(1, 49)} - set(rows) == set()
    used = {claim.conflict for claim in MATRIX.history if claim.conflict}
    assert used <= set(rows)
    assert all(row["handling"] and row["action"] for row in rows.values())


def test_git_versions_name_products() -> None:
    tags = {
        claim.components["torch_npu_git"]: claim.components["torch_npu_product"]
        for claim in MATRIX.about("torch_npu_git", "torch_npu_product")
    }
    assert tags["d99d6cda7"] == "26.0.0"
    assert all(re.fullmatch(r"[0-9a-f]{7,40}", commit) for commit in tags)


def test_costs_are_ordered_by_what_a_change_disturbs() -> None:
    cost = {key: int(row["cost"]) for key, row in MATRIX.components.items()}
    assert cost["torch_npu"] < cost["python"] < cost["cann"] < cost["hdk"] < cost["product"]
    # Moving every package at once is still cheaper than a new CANN.
    packages = sum(
        int(row["cost"]) for row in MATRIX.components.values() if row["layer"] == "package"
    )
    assert packages < cost["cann"]


def test_chips_belong_to_products() -> None:
    products = {row["name"] for row in MATRIX.tables["products"]}
    chips = {row["chip"]: row for row in MATRIX.tables["chips"]}
    assert chips["910B"]["product"] == "910"
    assert chips["910B4"]["memory_mb"] != chips["910B4-1"]["memory_mb"]
    for row in chips.values():
        assert row["product"] in products
        assert row["source"]
        assert row["date"]


def test_variables_state_their_source() -> None:
    rows = read_table("variables")
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names) > 90
    for row in rows:
        assert row["english"].endswith((".", "CANN.")), row["name"]
        assert row["chinese"], row["name"]
        assert row["source"], row["name"]
    timeout = next(row for row in rows if row["name"] == "HCCL_CONNECT_TIMEOUT")
    assert timeout["check"] == "int:120:7200"
    assert timeout["default"] == "120"


def test_checks_of_variables_can_be_read() -> None:
    for row in read_table("variables"):
        kind, _, rest = row["check"].partition(":")
        assert kind in ("", "one", "int", "float", "options"), row["name"]
        if kind in ("int", "float"):
            low, _, high = rest.partition(":")
            assert float(low or 0) <= float(high or "inf"), row["name"]
        if kind == "one":
            assert all(rest.split("|")), row["name"]


def test_error_codes_point_at_rules() -> None:
    rules = {row["rule"] for row in read_table("rules")}
    rows = read_table("error_codes")
    assert len({row["code"] for row in rows}) == len(rows)
    for row in rows:
        assert row["english"], row["code"]
        assert row["chinese"], row["code"]
        assert {rule for rule in row["rules"].split(",") if rule} <= rules, row["code"]


def test_relations_speak_of_known_rules() -> None:
    rules = {row["rule"] for row in read_table("rules")}
    assert {relation["rule"] for relation in MATRIX.tables["relations"]} <= rules


def test_published_spellings_survive_free_text() -> None:
    for claim in MATRIX.about("cann", "torch_npu"):
        raw = claim.components["cann"]
        if "X" in raw or "|" in raw:
            continue
        assert from_free_text("cann", f"CANN {raw}") == parse("cann", raw), raw
