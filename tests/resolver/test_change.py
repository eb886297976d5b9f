"""The smallest change: costs, what may not move, upgrades, and that the answer really fits."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.resolver import Context, Resolution, pair_results, smallest_change
from certify.resolver.search import BASE, ORDER
from tests.resolver.synthetic import matrix_of
from tests.resolver.test_pairs import load_once

if TYPE_CHECKING:
    from pathlib import Path

    from matrices.load import Matrix

A2 = Context(product="A2", arch="aarch64")


def moves(change: Resolution) -> dict[str, str]:
    return {step.component: step.target for step in change.changes}


@pytest.mark.parametrize(
    ("have", "expected", "cost"),
    [
        (
            {"torch": "2.7.1+cpu", "torch_npu": "2.7.1", "cann": "9.0.0", "driver": "25.5.1"},
            {"torch_npu": "2.7.1.post4"},
            1,
        ),
        ({"torch": "2.12.0", "torch_npu": "2.8.0.post2", "cann": "8.5.0"}, {"torch": "2.8.0"}, 1),
        ({"cann": "9.1.0", "triton_ascend": "3.2.0"}, {"triton_ascend": "3.2.2"}, 1),
        (
            {"torch": "2.10.0", "torch_npu": "2.10.0", "cann": "8.3.RC2"},
            {"torch": "2.8.0", "torch_npu": "2.8.0"},
            2,
        ),
        (
            {"torch": "2.7.1", "torch_npu": "2.7.1.post8", "cann": "9.1.0", "driver": "25.2.2"},
            {},
            0,
        ),
        (
            {"torch": "2.7.1", "torchvision": "0.23.0", "torch_npu": "2.7.1.post8"},
            {"torchvision": "0.22.1"},
            1,
        ),
        (
            {"mindspeed_llm": "26.1.0", "mindspeed_core": "26.0.0_core_r0.12.1"},
            {"mindspeed_core": "26.1.0_core_r0.12.1"},
            1,
        ),
        ({"cann": "9.1.0", "nnal": "8.5.0", "cann_ops": "9.1.0"}, {"nnal": "9.1.0"}, 100),
    ],
)
def test_smallest_changes(
    matrix: Matrix, have: dict[str, str], expected: dict[str, str], cost: int
) -> None:
    change = smallest_change(matrix, have, A2)
    assert moves(change) == expected
    assert change.cost == cost
    assert change.level in ("reference", "compatible")


def test_a_driver_moves_only_when_nothing_cheaper_helps(matrix: Matrix) -> None:
    have = {"cann": "9.1.0", "driver": "25.0.rc1.1", "torch": "2.7.1", "torch_npu": "2.7.1.post8"}
    free = smallest_change(matrix, have, A2)
    # CANN 9.0, which this wheel is declared for too, costs 100, a driver 1000.
    assert moves(free) == {"cann": "9.0.0"}
    assert free.cost == 100
    kept = smallest_change(matrix, have, A2, keep={"cann"})
    assert set(moves(kept)) == {"hdk"}
    step = kept.changes[0]
    assert step.cost == 1000
    assert step.stops_jobs
    assert "reboot" in step.commands


def test_what_may_not_move_can_make_it_impossible(matrix: Matrix) -> None:
    have = {"torch_npu": "2.7.1", "cann": "9.0.0"}
    change = smallest_change(matrix, have, A2, keep={"torch_npu", "cann"})
    assert change.level == "none"
    assert change.blocked == ("torch_npu+cann",)
    assert change.changes == ()


def test_an_upgrade_names_what_moves_and_what_may_stay(matrix: Matrix) -> None:
    have = {
        "torch": "2.7.1", "torch_npu": "2.7.1", "cann": "8.3.RC1", "driver": "25.0.rc1.1",
        "triton_ascend": "3.2.0rc4", "python": "3.10.14", "mindspeed_llm": "2.2.0",
        "mindspeed_core": "2.2.0_core_r0.12.1", "megatron": "core_v0.12.1",
    }  # fmt: skip
    change = smallest_change(matrix, have, A2, target={"cann": "9.1.0"})
    moved = moves(change)
    assert moved["cann"] == "9.1.0"
    assert moved["torch_npu"] == "2.7.1.post8"
    assert moved["triton_ascend"] == "3.2.2"
    assert "hdk" in moved
    assert [step.layer for step in change.changes] == ["driver", "cann", "package", "package"]
    assert change.stays["torch"] == "declared"
    assert change.stays["mindspeed_llm"] == "undeclared"
    assert "mindspeed_llm" not in moved


def test_an_upgrade_within_what_is_there_costs_nothing(matrix: Matrix) -> None:
    have = {"torch": "2.7.1", "torch_npu": "2.7.1.post8", "cann": "9.1.0"}
    change = smallest_change(matrix, have, A2, target={"cann": "9.1.0"})
    assert change.cost == 0
    assert change.level == "reference"
    assert change.stays == {"torch": "reference", "torch_npu": "reference", "cann": "reference"}


def test_parts_of_one_release_are_paid_once(tmp_path: Path) -> None:
    matrix = matrix_of(
        tmp_path,
        {"id": "torch_npu-1", "components": "torch_npu=2.7.1.post8 torch=2.7.1 cann=9.1.0"},
    )
    have = {"torch_npu": "2.7.1.post8", "cann": "8.0.0", "cann_ops": "8.0.0", "nnal": "8.0.0"}
    change = smallest_change(matrix, have, A2)
    assert moves(change) == {"cann": "9.1.0", "cann_ops": "9.1.0", "nnal": "9.1.0"}
    assert change.cost == 100
    assert sum(step.cost for step in change.changes) == change.cost


def test_of_two_equal_rows_the_project_itself_is_preferred(matrix: Matrix) -> None:
    have = {"torch": "2.7.1", "torch_npu": "2.7.1", "cann": "9.1.0"}
    # post10 stands in a fork's table with the wildcard 9.1.X, post8 in the official one.
    assert moves(smallest_change(matrix, have, A2)) == {"torch_npu": "2.7.1.post8"}


def test_at_equal_cost_the_official_table_goes_first(tmp_path: Path) -> None:
    wheel = "torch_npu=2.7.1.post{} torch=2.7.1 cann=9.1.0"
    matrix = matrix_of(
        tmp_path,
        {"id": "torch_npu-1", "components": wheel.format(12), "source": "somebody (fork)"},
        {"id": "torch_npu-2", "components": wheel.format(11), "conflict": "C-23"},
        {"id": "torch_npu-3", "components": wheel.format(9), "path": "issues/7"},
        {"id": "torch_npu-4", "components": wheel.format(8)},
        {"id": "torch_npu-5", "components": "torch_npu=2.7.1 torch=2.7.1 cann=8.3.RC1"},
    )
    have = {"torch": "2.7.1", "torch_npu": "2.7.1", "cann": "9.1.0"}
    assert moves(smallest_change(matrix, have, A2)) == {"torch_npu": "2.7.1.post8"}


def test_a_wheel_that_stays_gets_the_cann_of_its_own_row(tmp_path: Path) -> None:
    rows = (
        {"id": "torch_npu-1", "components": "torch_npu=2.9.0.post8 torch=2.9.0 cann=9.1.0"
                                            " torch_npu_product=26.1.1", "source": "a (fork)"},
        {"id": "torch_npu-2", "components": "torch_npu=2.9.0 torch=2.9.0 cann=9.0.0"},
        {"id": "torch_npu-3", "kind": "compatible",
         "components": "torch_npu_product=26.1.X cann=9.0.X"},
    )  # fmt: skip
    have = {"torch": "2.9.0", "torch_npu": "2.9.0.post8", "cann": "9.2.0"}
    # 9.0.0 is declared by the project too, but no row pairs the wheel with it.
    assert moves(smallest_change(matrix_of(tmp_path, *rows), have, A2)) == {"cann": "9.1.0"}


def test_commands_can_be_pasted(matrix: Matrix) -> None:
    have = {"torch": "2.12.0", "torch_npu": "2.8.0.post2", "cann": "8.5.0"}
    on_x86 = smallest_change(matrix, have, Context(product="A2", arch="x86_64"))
    assert on_x86.changes[0].commands == (
        "pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cpu",
    )
    on_arm = smallest_change(matrix, have, A2)
    assert on_arm.changes[0].commands == ("pip install torch==2.8.0",)
    upgrade = smallest_change(
        matrix, {"torch_npu": "2.7.1", "cann": "8.3.RC1"}, A2, target={"cann": "9.1.0"}
    )
    toolkit = upgrade.changes[0].commands
    assert toolkit[0] == "bash Ascend-cann-toolkit_9.1.0_linux-aarch64.run --install"
    assert "bash Ascend-cann-910b-ops_9.1.0_linux-aarch64.run --install" in toolkit
    assert toolkit[-1] == "source /usr/local/Ascend/cann/set_env.sh"


def test_the_search_order_holds_the_base_first() -> None:
    assert ORDER[: len(BASE)] == BASE
    assert len(set(ORDER)) == len(ORDER)


def test_a_package_moves_before_cann(matrix: Matrix) -> None:
    have = {
        "numpy": "2.2.6", "torch": "2.6.0", "torch_npu": "2.6.0", "cann": "8.2.RC1",
        "python": "3.11",
    }  # fmt: skip
    change = smallest_change(matrix, have, A2)
    assert moves(change) == {"numpy": "1.26.4"}
    assert change.cost == 1
    assert "pip install --no-deps numpy==1.26.4" in change.changes[0].commands


@pytest.mark.parametrize(
    ("product", "target"),
    [("Atlas350", "25.7.RC1"), ("Atlas850", "25.6.RC1"), ("Atlas950SuperPoD", "25.1.RC1")],
)
def test_a_driver_moves_inside_its_product_line(matrix: Matrix, product: str, target: str) -> None:
    have = {"cann": "9.1.0", "driver": "26.0.RC1"}
    change = smallest_change(matrix, have, Context(product=product), keep={"cann"})
    assert moves(change) == {"hdk": target}
    family = smallest_change(matrix, have, Context(product="950"), keep={"cann"})
    assert (family.level, family.blocked) == ("none", ("cann+hdk",))


def test_an_open_range_is_its_own_target(tmp_path: Path) -> None:
    matrix = matrix_of(
        tmp_path, {"id": "numpy-1", "kind": "requirement", "components": "cann=8.2.RC1 numpy=<2.0"}
    )
    change = smallest_change(matrix, {"cann": "8.2.RC1", "numpy": "2.2.6"}, A2)
    assert moves(change) == {"numpy": "<2.0"}
    assert change.changes[0].commands == ("pip install 'numpy<2.0'",)


def test_what_must_be_absent_is_removed(matrix: Matrix) -> None:
    change = smallest_change(
        matrix, {"cann": "8.5.0", "triton_ascend": "3.2.0"}, Context(product="310P")
    )
    assert moves(change) == {"triton_ascend": "none"}
    assert change.cost == 1
    assert change.changes[0].commands == ("pip uninstall -y triton-ascend",)
    assert change.changes[0].why == "triton_ascend-0018"
    assert "triton_ascend" not in change.row
    kept = smallest_change(
        matrix, {"triton_ascend": "3.2.0"}, Context(product="310P"), keep={"triton_ascend"}
    )
    assert kept.level == "none"
    community = smallest_change(matrix, {"triton_ascend": "3.2.0", "triton": "3.2.0"}, A2)
    assert community.cost == 1


_DOMAIN = {
    "torch": ["2.1.0", "2.3.0", "2.6.0"],
    "python": ["3.9", "3.10", "3.12"],
    "transformers": ["4.40.0", "4.50.0", "5.0.0"],
    "numpy": ["1.24.0", "1.26.4", "2.2.6"],
    "deepspeed": ["0.14.0", "0.16.6"],
}
_PAIRS = (
    ("torch", "numpy"), ("torch", "python"), ("transformers", "torch"), ("deepspeed", "torch"),
)  # fmt: skip


@st.composite
def _small_matrices(draw: st.DrawFn) -> list[dict[str, str]]:
    rows = []
    for number, (subject, object_) in enumerate(_PAIRS):
        for value in _DOMAIN[subject]:
            operator = draw(st.sampled_from(("", "<", "<=", ">=", ">", "==")))
            if operator:
                bound = draw(st.sampled_from(_DOMAIN[object_]))
                rows.append(
                    {
                        "id": f"{'numpy' if object_ == 'numpy' else subject}-{number}{len(rows)}",
                        "kind": "requirement",
                        "components": f"{subject}={value} {object_}={operator}{bound}",
                    }
                )
    # Every version is named, so that the oracle and the resolver choose among the same ones.
    for key, values in _DOMAIN.items():
        for value in values:
            row = {"kind": "requirement", "components": f"{key}={value}"}
            rows.append({"id": f"names-{len(rows)}", **row})
    return rows


@settings(max_examples=60, deadline=None)
@given(
    rows=_small_matrices(),
    have=st.fixed_dictionaries({k: st.sampled_from(v) for k, v in _DOMAIN.items()}),
)
def test_no_cheaper_change_exists(
    rows: list[dict[str, str]], have: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    matrix = matrix_of(tmp_path_factory.mktemp("oracle"), *rows)
    costs = {key: int(matrix.components[key]["cost"]) for key in have}
    best = None
    options = sorted(
        product(*_DOMAIN.values()),
        key=lambda row: sum(costs[k] for k, v in zip(_DOMAIN, row, strict=True) if v != have[k]),
    )
    for row in options:
        stack = dict(zip(_DOMAIN, row, strict=True))
        if all(r.status != "incompatible" for r in pair_results(matrix, stack, A2)):
            best = sum(costs[key] for key, value in stack.items() if value != have[key])
            break
    change = smallest_change(matrix, have, A2)
    if best is not None:
        # Open ends of ranges may be cheaper still than the versions of the oracle.
        assert change.level != "none"
        assert change.cost <= best
    after = {**have, **change.row}
    if change.level != "none" and not any(v[0] in "<>" for v in after.values()):
        assert all(r.status != "incompatible" for r in pair_results(matrix, after, A2))
        assert best == change.cost


_CHOICES = {
    "torch": ["2.5.1", "2.7.1+cpu", "2.9.0"],
    "torch_npu": ["2.5.1.post1", "2.7.1", "2.7.1.post8", "2.9.0.post6"],
    "cann": ["8.2.RC1", "8.3.RC1", "9.0.0", "9.1.0"],
    "driver": ["24.1.rc2", "25.2.0", "25.5.1"],
    "triton_ascend": ["3.2.0", "3.2.2"],
    "python": ["3.9.18", "3.10.14"],
    "torchvision": ["0.20.1", "0.22.1"],
}


@settings(max_examples=60, deadline=None)
@given(
    have=st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, values in _CHOICES.items()}
    ),
    keep=st.sets(st.sampled_from(sorted(_CHOICES)), max_size=2),
)
def test_the_answer_fits_and_keeps_what_it_must(have: dict[str, str], keep: set[str]) -> None:
    matrix = load_once()
    change = smallest_change(matrix, have, A2, keep)
    if change.level == "none":
        assert keep
        assert change.blocked
        return
    assert not set(moves(change)) & keep
    assert "hdk" not in moves(change) or "driver" not in keep
    assert change.cost == sum(step.cost for step in change.changes)
    after = {key: value for key, value in {**have, **change.row}.items() if key != "driver"}
    statuses = {r.status for r in pair_results(matrix, after, A2)}
    assert "incompatible" not in statuses
    # What was reached needs no further change, and freedom never makes it dearer, unless keeping
    # a pair that nobody declares saved the cost of leaving it.
    assert smallest_change(matrix, after, A2, keep).cost == 0
    if change.level != "undeclared":
        assert smallest_change(matrix, have, A2).cost <= change.cost
