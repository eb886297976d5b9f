"""Pairs judged by the published claims: scenarios on the real matrix and on small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.resolver import Context, PairResult, pair_results, render
from matrices.load import load
from tests.resolver.synthetic import matrix_of

if TYPE_CHECKING:
    from pathlib import Path

    from matrices.load import Matrix

A2 = Context(product="A2", arch="aarch64")


def result_of(
    matrix: Matrix, have: dict[str, str], subject: str, object_: str, context: Context = A2
) -> PairResult:
    """The one result about this pair."""
    found = [r for r in pair_results(matrix, have, context) if r.components == (subject, object_)]
    assert len(found) == 1, found
    return found[0]


_CASES = [
    # torch_npu with CANN: post level, product release, distance
    ({"torch_npu": "2.7.1.post8", "cann": "9.1.0"}, "torch_npu", "cann", "reference"),
    ({"torch_npu": "2.7.1", "cann": "9.0.0"}, "torch_npu", "cann", "incompatible"),
    ({"torch_npu": "2.7.1.post4", "cann": "9.0.0"}, "torch_npu", "cann", "reference"),
    ({"torch_npu": "2.7.1.post4", "cann": "9.0.1"}, "torch_npu", "cann", "compatible"),
    ({"torch_npu": "2.7.1", "cann": "8.3.RC2"}, "torch_npu", "cann", "compatible"),
    ({"torch_npu": "2.7.1", "cann": "8.5.0"}, "torch_npu", "cann", "undeclared"),
    ({"torch_npu": "2.7.1.post1", "cann": "8.3.RC1"}, "torch_npu", "cann", "compatible"),
    ({"torch_npu": "2.5.1", "cann": "8.0.RC3"}, "torch_npu", "cann", "compatible"),
    ({"torch_npu": "2.5.1", "cann": "7.0.RC1"}, "torch_npu", "cann", "incompatible"),
    ({"torch_npu": "2.10.0", "cann": "9.0.0"}, "torch_npu", "cann", "reference"),
    ({"torch_npu": "2.10.0", "cann": "8.3.RC2"}, "torch_npu", "cann", "undeclared"),
    ({"torch_npu": "2.10.0rc1", "cann": "8.5.0"}, "torch_npu", "cann", "reference"),
    ({"torch_npu": "2.1.0.post3", "cann": "8.0.RC1"}, "torch_npu", "cann", "reference"),
    ({"torch_npu": "2.1.0.post4", "cann": "8.0.RC1"}, "torch_npu", "cann", "reference"),
    ({"torch_npu": "2.7.1.post11", "cann": "9.1.0"}, "torch_npu", "cann", "undeclared"),
    ({"torch_npu": "2.7.1.dev20250724", "cann": "8.2.RC1"}, "torch_npu", "cann", "compatible"),
    ({"torch_npu": "2.1.0rc1", "cann": "7.0.0.alpha001"}, "torch_npu", "cann", "undeclared"),
    # torch and torchvision
    ({"torch": "2.7.1+cpu", "torch_npu": "2.7.1.post8"}, "torch_npu", "torch", "reference"),
    ({"torch": "2.12.0", "torch_npu": "2.8.0.post2"}, "torch_npu", "torch", "incompatible"),
    ({"torch": "2.14.1", "torch_npu": "2.14.0"}, "torch_npu", "torch", "incompatible"),
    ({"torch": "2.7.1", "torchvision": "0.22.1+cpu"}, "torch", "torchvision", "reference"),
    ({"torch": "2.7.1", "torchvision": "0.23.0"}, "torch", "torchvision", "incompatible"),
    # driver, either direction
    ({"cann": "9.1.0", "driver": "25.2.2"}, "cann", "hdk", "compatible"),
    ({"cann": "9.1.0", "driver": "25.0.rc1.1"}, "cann", "hdk", "incompatible"),
    ({"cann": "9.1.0", "driver": "24.1.rc2.2"}, "cann", "hdk", "incompatible"),
    ({"cann": "9.1.0", "driver": "26.0.rc1"}, "cann", "hdk", "reference"),
    ({"cann": "8.0.0.beta1", "driver": "23.0.3"}, "cann", "hdk", "undeclared"),
    ({"cann": "8.5.1", "driver": "25.3.rc1"}, "cann", "hdk", "compatible"),
    # Triton-Ascend
    ({"triton_ascend": "3.2.2", "cann": "9.1.0"}, "triton_ascend", "cann", "reference"),
    ({"triton_ascend": "3.2.0", "cann": "9.1.0"}, "triton_ascend", "cann", "incompatible"),
    ({"triton_ascend": "3.2.1", "cann": "9.0.1"}, "triton_ascend", "cann", "compatible"),
    ({"triton_ascend": "3.2.0rc4", "cann": "8.3.RC1"}, "triton_ascend", "cann", "reference"),
    ({"triton_ascend": "3.2.0.dev20250916", "cann": "8.3.RC2"}, "triton_ascend", "cann",
     "undeclared"),
    ({"triton_ascend": "3.2.0", "triton": "3.2.0"}, "triton_ascend", "triton", "incompatible"),
    ({"triton_ascend": "3.2.2", "triton": "3.5.0"}, "triton_ascend", "triton", "compatible"),
    # parts of one CANN
    ({"cann": "9.1.0", "nnal": "9.1.0"}, "cann", "nnal", "reference"),
    ({"cann": "9.1.0", "nnal": "8.5.0"}, "cann", "nnal", "incompatible"),
    ({"cann": "9.0.1", "cann_ops": "8.5.2"}, "cann", "cann_ops", "compatible"),
    ({"cann": "9.1.0", "cann_ops": "9.0.0"}, "cann", "cann_ops", "incompatible"),
    # interpreters and ranges
    ({"torch": "2.9.0", "torch_npu": "2.9.0", "python": "3.9.18"}, "torch", "python",
     "incompatible"),
    ({"transformers": "4.57.1", "torch": "2.1.0"}, "transformers", "torch", "incompatible"),
    ({"transformers": "4.51.0", "torch_npu": "2.2.0"}, "transformers", "torch_npu",
     "incompatible"),
    ({"transformers": "4.49.0", "torch": "2.1.0"}, "transformers", "torch", "compatible"),
    ({"cann": "8.2.RC1", "numpy": "2.0.2"}, "cann", "numpy", "incompatible"),
    ({"cann": "9.1.0", "torch": "2.7.1", "glibc": "2.27"}, "torch", "glibc", "incompatible"),
    ({"verl": "0.5.0", "transformers": "4.57.1"}, "verl", "transformers", "incompatible"),
    # MindSpeed and Megatron
    ({"mindspeed_llm": "26.1.0", "mindspeed_core": "26.1.0_core_r0.12.1"}, "mindspeed_llm",
     "mindspeed_core", "reference"),
    ({"mindspeed_llm": "26.1.0", "mindspeed_core": "26.0.0_core_r0.12.1"}, "mindspeed_llm",
     "mindspeed_core", "incompatible"),
    ({"mindspeed_llm": "26.1.0", "mindspeed_core": "core_v0.12.1"}, "mindspeed_llm",
     "mindspeed_core", "undeclared"),
    ({"mindspeed_llm": "26.0.0", "cann": "9.1.0"}, "mindspeed_llm", "cann", "incompatible"),
    ({"mindspeed_llm": "26.0.0", "cann": "8.2.RC1"}, "mindspeed_llm", "cann", "undeclared"),
    ({"mindspeed_llm": "26.1.0", "python": "3.11.9"}, "mindspeed_llm", "python", "undeclared"),
    ({"mindspeed_core": "26.1.0_core_r0.12.1", "megatron": "0.12.1"}, "mindspeed_core", "megatron",
     "compatible"),
    ({"mindspeed_core": "26.1.0_core_r0.12.1", "megatron": "0.16.1"}, "mindspeed_core", "megatron",
     "incompatible"),
    ({"mindspeed_core": "master", "numpy": "1.26.4"}, "mindspeed_core", "numpy", "compatible"),
    # rows of frameworks
    ({"vllm_ascend": "v0.23.0", "cann": "9.1.0"}, "vllm_ascend", "cann", "reference"),
    ({"vllm_ascend": "v0.18.0", "cann": "9.0.0"}, "vllm_ascend", "cann", "undeclared"),
    ({"vllm_ascend": "v0.23.0", "torch": "2.9.0"}, "vllm_ascend", "torch", "incompatible"),
    ({"llamafactory": "0.9.3", "transformers": "4.49.0"}, "llamafactory", "transformers",
     "compatible"),
]  # fmt: skip


@pytest.mark.parametrize(("have", "subject", "object_", "status"), _CASES)
def test_pairs_of_the_real_matrix(
    matrix: Matrix, have: dict[str, str], subject: str, object_: str, status: str
) -> None:
    results = [r for r in pair_results(matrix, have, A2) if r.components == (subject, object_)]
    assert status in {result.status for result in results}, results
    for result in results:
        assert all(matrix.claim(name) is not None for name in result.claims)
        assert result.why
        for reason in result.why:
            assert render(reason, "en")
            assert render(reason, "zh")


def test_the_expected_wheel_keeps_the_torch_release(matrix: Matrix) -> None:
    result = result_of(matrix, {"torch_npu": "2.7.1", "cann": "9.0.0"}, "torch_npu", "cann")
    assert result.rule == "torch-npu-cann"
    assert result.expected["torch_npu"][0] == "2.7.1.post4"
    assert result.expected["cann"][0] == "8.3.RC1"
    chain = " / ".join(render(reason) for reason in result.why)
    assert "product release 7.2.0" in chain
    assert "newer than everything declared" in chain


def test_git_version_tells_products_apart(matrix: Matrix) -> None:
    # 2.7.1 of 7.1.RC1.alpha002 is not the 2.7.1 that the table pairs with CANN 8.3.RC1.
    have = {"torch_npu": "2.7.1", "cann": "8.3.RC1"}
    assert result_of(matrix, have, "torch_npu", "cann").status == "reference"
    alpha = {**have, "torch_npu_git": "d33df559f" + "0" * 31}
    assert result_of(matrix, alpha, "torch_npu", "cann").status == "undeclared"
    final = {**have, "torch_npu_git": "9ae698c45" + "0" * 31}
    assert result_of(matrix, final, "torch_npu", "cann").status == "reference"


def test_driver_numbers_are_judged_within_a_product(matrix: Matrix) -> None:
    have = {"cann": "9.1.0", "driver": "25.7.rc1"}
    atlas = result_of(matrix, have, "cann", "hdk", Context(product="Atlas350"))
    assert atlas.status == "reference"
    assert "cann_hdk-0096" in atlas.claims
    other = result_of(matrix, {"cann": "9.1.0", "driver": "26.1.0"}, "cann", "hdk", A2)
    assert other.status == "reference"


@pytest.mark.parametrize(
    ("product", "cann", "driver", "status"),
    [
        ("Atlas350", "9.1.0", "25.7.RC1", "reference"),
        ("Atlas 350", "9.1.0", "25.7.RC1", "reference"),
        ("Atlas850", "9.1.0", "25.6.RC1", "reference"),
        ("Atlas950SuperPoD", "9.1.0", "25.1.RC1", "reference"),
        ("Atlas 950 SuperPoD", "9.1.0", "25.1.RC1", "reference"),
        ("Atlas350", "9.1.0", "26.0.RC1", "incompatible"),
        ("Atlas350", "9.1.0", "26.0.RC3", "incompatible"),
        ("Atlas850", "9.1.0", "25.7.RC1", "incompatible"),
        ("A2", "9.1.0", "25.7.RC1", "incompatible"),
        ("A3", "9.1.0", "25.6.RC1", "incompatible"),
        ("950", "9.1.0", "25.7.RC1", "undeclared"),
        ("A2", "9.1.0", "26.0.RC1", "reference"),
        # one train, patches, ranges, below the columns
        ("A2", "8.3.RC1", "25.3.RC1", "reference"),
        ("A2", "8.3.RC1", "25.3.0", "compatible"),
        ("A2", "8.1.RC1", "25.0.rc1.1", "compatible"),
        ("A2", "7.0.0", "23.0.3", "compatible"),
        ("A2", "8.0.0", "24.1.0", "compatible"),
        ("A2", "8.5.0", "24.1.RC3", "undeclared"),
    ],
)
def test_drivers_by_product(
    matrix: Matrix, product: str, cann: str, driver: str, status: str
) -> None:
    have = {"cann": cann, "driver": driver}
    result = result_of(matrix, have, "cann", "hdk", Context(product=product))
    assert result.status == status, result
    if status == "undeclared":
        assert result.expected == {}
        assert result.conflict == ""
    if status == "incompatible":
        lines = {"Atlas350": {"25.7.RC1"}, "Atlas850": {"25.6.RC1"}}
        assert set(result.expected["hdk"]) <= lines.get(product, set(result.expected["hdk"]))
        assert "25.7.RC1" not in result.expected["hdk"] or product == "Atlas350"


def test_a_row_of_a_framework_is_named_where_it_alone_lists_a_pair(tmp_path: Path) -> None:
    matrix = matrix_of(
        tmp_path,
        {"id": "triton_ascend-1", "components": "triton_ascend=3.2.0 cann=8.5.0"},
        {
            "id": "vllm_ascend-8",
            "source": "vllm-ascend",
            "components": "vllm_ascend=v0.18.0 cann=8.3.RC1 triton_ascend=3.2.0|3.3.0",
        },
    )
    for wheel, status in (("3.2.0", "incompatible"), ("3.3.0", "undeclared")):
        have = {"triton_ascend": wheel, "cann": "8.3.RC1"}
        result = result_of(matrix, have, "triton_ascend", "cann")
        assert result.status == status
        last = render(result.why[-1])
        assert last.startswith("only vllm-ascend table.md, table 1")
        assert "does not override" in last
        assert result.why[-1].claim == "vllm_ascend-8"
        assert all(reason.kind != "unknown" for reason in result.why)


def test_a_family_alone_asks_for_the_product(matrix: Matrix) -> None:
    have = {"cann": "9.1.0", "driver": "25.7.RC1"}
    result = result_of(matrix, have, "cann", "hdk", Context(product="950"))
    assert "--product" in render(result.why[-1])
    # Every 950 excludes 26.x: no other CANN and no other 26.x is offered.
    other = result_of(
        matrix, {"cann": "9.1.0", "driver": "26.0.RC1"}, "cann", "hdk", Context(product="950")
    )
    assert (other.status, other.expected) == ("incompatible", {})
    assert "hardware product Atlas350 and Ascend HDK" in render(other.why[0])
    assert "--product" in render(other.why[-1])


def test_devices_are_part_of_the_key(matrix: Matrix) -> None:
    old = {"torch_npu": "2.6.0", "cann": "9.1.1"}
    results = {(r.components, r.status) for r in pair_results(matrix, old, Context(product="950"))}
    assert (("product", "torch_npu_product"), "incompatible") in results
    assert (("product", "cann"), "compatible") in results
    llm = result_of(
        matrix, {"mindspeed_llm": "26.1.0"}, "product", "mindspeed_llm", Context(product="310P")
    )
    assert llm.status == "incompatible"
    assert result_of(
        matrix, {"mindspeed_llm": "26.0.0"}, "product", "mindspeed_llm", Context(product="950")
    ).status == "undeclared"  # fmt: skip
    triton = {"triton_ascend": "3.2.2"}
    assert result_of(
        matrix, triton, "product", "triton_ascend", Context(product="310P")
    ).status == "incompatible"  # fmt: skip


def test_conflicting_lists_of_interpreters_make_it_undeclared(matrix: Matrix) -> None:
    have = {"torch": "2.12.0", "torch_npu": "2.12.0", "python": "3.14.0"}
    found = [r for r in pair_results(matrix, have, A2) if r.components == ("torch", "python")]
    listed = next(r for r in found if r.conflict == "C-05")
    assert listed.status == "undeclared"
    assert any("C-05" in render(reason) for reason in listed.why)


def test_model_types_need_their_transformers(matrix: Matrix) -> None:
    context = Context(product="A3", model_type="qwen3_moe")
    too_old = result_of(matrix, {"transformers": "4.50.3"}, "model_type", "transformers", context)
    assert too_old.status == "incompatible"
    assert too_old.rule == "transformers-model"
    assert result_of(
        matrix, {"transformers": "4.57.1"}, "model_type", "transformers", context
    ).status == "compatible"  # fmt: skip


def test_unreadable_versions_are_undeclared(matrix: Matrix) -> None:
    result = result_of(matrix, {"torch_npu": "2.7.1", "cann": "??"}, "torch_npu", "cann")
    assert result.status == "undeclared"
    assert "cannot be read" in render(result.why[0])


def test_superseded_claims_never_decide(tmp_path: Path) -> None:
    matrix = matrix_of(
        tmp_path,
        {"id": "torch_npu-1", "components": "torch_npu=9.9.0 torch=9.9.0 cann=9.1.0"},
        {
            "id": "torch_npu-2",
            "components": "torch_npu=9.9.0 cann=8.3.RC1",
            "state": "superseded",
        },
        {
            "id": "torch_npu-3",
            "kind": "incompatible",
            "components": "torch_npu=9.9.0 cann=9.1.0",
            "state": "contradicted",
            "date": "2027-01-01",
        },
    )
    new = result_of(matrix, {"torch_npu": "9.9.0", "cann": "9.1.0"}, "torch_npu", "cann")
    assert new.claims == ("torch_npu-1",)
    old = result_of(matrix, {"torch_npu": "9.9.0", "cann": "8.3.RC1"}, "torch_npu", "cann")
    assert old.status == "incompatible"
    assert matrix.claim("torch_npu-2") is not None


def test_the_newer_of_two_statements_decides(tmp_path: Path) -> None:
    rows = [
        {"id": "cann_hdk-1", "kind": "compatible", "components": "cann=9.1.X hdk=25.0.X"},
        {
            "id": "cann_hdk-2",
            "kind": "incompatible",
            "components": "cann=9.1.X hdk=25.0.X",
            "date": "2026-02-01",
        },
    ]
    matrix = matrix_of(tmp_path, *rows)
    have = {"cann": "9.1.0", "hdk": "25.0.rc1"}
    assert result_of(matrix, have, "cann", "hdk").status == "incompatible"
    rows[0]["date"] = "2026-03-01"
    matrix = matrix_of(tmp_path / "again", *rows)
    assert result_of(matrix, have, "cann", "hdk").status == "compatible"


def test_one_unreadable_row_does_not_blind_the_others(tmp_path: Path) -> None:
    matrix = matrix_of(
        tmp_path,
        {"id": "torch_npu-1", "components": "torch_npu=9.9.0 cann=oops"},
        {"id": "torch_npu-2", "components": "torch_npu=9.9.0 cann=9.1.0"},
    )
    have = {"torch_npu": "9.9.0", "cann": "9.1.0"}
    assert result_of(matrix, have, "torch_npu", "cann").status == "reference"


def test_relations_without_any_claim_give_no_result(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, {"id": "torch_npu-1", "components": "torch_npu=9.9.0 cann=9.1.0"})
    assert pair_results(matrix, {"transformers": "5.2.0", "torch": "2.7.1"}, A2) == []


_VERSIONS = {
    "torch": ["2.1.0", "2.7.1+cpu", "2.9.0", "2.14.1", "x"],
    "torch_npu": ["2.1.0.post3", "2.7.1", "2.7.1.post8", "2.9.0.post1+git4c901a4", "2.14.0", "?"],
    "cann": ["7.0.RC1", "8.2.RC1.alpha001", "8.3.RC2", "9.0.0", "9.1.0-beta.1", "9.9.9", ""],
    "driver": ["23.0.3", "25.0.rc1.1", "25.5.1", "26.1.0.b083"],
    "triton_ascend": ["3.2.0", "3.2.2", "3.2.0.dev1"],
    "python": ["3.8.19", "3.10.14", "3.14.0"],
    "mindspeed_llm": ["2.2.0", "26.1.0", "master", "core_v0.12.1"],
    "mindspeed_core": ["26.1.0_core_r0.12.1", "master", "f2b0977e"],
    "numpy": ["1.26.4", "2.4.6"],
    "transformers": ["4.41.2", "5.24.0"],
}


@settings(max_examples=60, deadline=None)
@given(
    have=st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, values in _VERSIONS.items()}
    ),
    product=st.sampled_from([None, "A2", "A3", "950", "Atlas350", "310P", "cuda", "unheard-of"]),
)
def test_any_stack_is_judged(have: dict[str, str], product: str | None) -> None:
    matrix = load_once()
    results = pair_results(matrix, have, Context(product=product))
    assert results == pair_results(matrix, have, Context(product=product))
    for result in results:
        assert result.status in ("reference", "compatible", "incompatible", "undeclared")
        assert set(result.found) == set(result.components)
        if result.status == "incompatible":
            assert result.why


_LOADED: list[Matrix] = []


def load_once() -> Matrix:
    """The real matrix for property tests, which take no fixtures of session scope."""
    if not _LOADED:
        _LOADED.append(load())
    return _LOADED[0]


def test_what_a_feature_needs_of_each_part_pairs_nothing(tmp_path: Path) -> None:
    matrix = matrix_of(
        tmp_path,
        {"id": "cann_hdk-1", "kind": "requirement",
         "components": "feature=large_pages cann=>=8.1.RC1 hdk=>=25.0.RC1"},
        {"id": "cann_hdk-2", "kind": "compatible", "components": "cann=8.1.RC1 hdk=25.2.X"},
    )  # fmt: skip
    for driver, status in (("25.2.0", "compatible"), ("26.1.0", "undeclared")):
        result = result_of(matrix, {"cann": "8.1.RC1", "hdk": driver}, "cann", "hdk")
        assert result.status == status
        assert "cann_hdk-1" not in result.claims
