"""Bytes of collectives, and where they go."""

from __future__ import annotations

import pytest

from certify.plan import communication
from certify.plan.layout import Cluster, Fsdp2Layout, McoreLayout
from certify.plan.memory import GIB

from tests.plan.test_flops import model  # isort: skip

A3 = Cluster(16, 16)


def test_the_published_bytes_of_the_fsdp2_layout() -> None:
    layout = Fsdp2Layout(fsdp=256, ep=16, ep_fsdp=16)
    found = communication.fsdp2(model("qwen3-235b-a22b-4k-fsdp2"), layout, A3)
    sums = {
        kind: sum(c.payload for c in found if c.kind == kind) / GIB
        for kind in ("all_gather", "reduce_scatter", "all_to_all")
    }
    # Traced at 94 layers, 256 ranks: 82.855 GiB gathered, as many reduced, 141 GiB exchanged.
    assert sums["all_gather"] == pytest.approx(82.855, rel=1e-4)
    assert sums["reduce_scatter"] == pytest.approx(82.855, rel=1e-4)
    assert sums["all_to_all"] == pytest.approx(141, rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "ranks", "stride", "within", "across"),
    [
        ("all_gather", 16, 1, 15 / 16, 0.0),
        ("all_gather", 32, 1, 15 / 16, 1 / 32),
        ("all_reduce", 32, 1, 30 / 16, 1 / 16),
        ("all_gather", 16, 16, 0.0, 15 / 16),
        ("all_to_all", 32, 1, 15 / 32, 16 / 32),
        ("send", 4, 64, 0.0, 1.0),
        ("send", 4, 4, 1.0, 0.0),
        ("send", 8, 4, 0.0, 1.0),
    ],
)
def test_within_and_across(
    kind: str, ranks: int, stride: int, within: float, across: float
) -> None:
    found = communication.collective(kind, "g", ranks, stride, A3, 1, 1.0, "")
    assert (found.within, found.across) == pytest.approx((within, across))


def test_what_every_node_lacks_arrives_once() -> None:
    """Hierarchical all-gather: all devices of a node together take in the rest of the tensor."""
    found = communication.collective("all_gather", "g", 64, 1, A3, 1, 64.0, "")
    assert found.across * A3.npus_per_node == 64 - 16


def test_megatron_reduces_each_parameter_once() -> None:
    layout = McoreLayout(world_size=8, distributed_optimizer=True)
    llama = model("llama2-7b-4k-mcore")
    found = {c.kind: c.payload for c in communication.mcore(llama, layout, Cluster(1, 8), 0)}
    assert found == {
        "reduce_scatter": 4 * llama.parameters,
        "all_gather": 2 * llama.parameters,
    }


def test_tensor_parallel_traffic_of_a_dense_model() -> None:
    layout = McoreLayout(world_size=8, tp=8, sequence_parallel=True, grad_accumulation=2)
    found = communication.mcore(model("llama2-7b-4k-mcore"), layout, Cluster(1, 8), 0)
    size, regions = 4096 * 4096 * 2, 2 * 32 * 2
    # The embedding ends a region and the head begins one, for each of two micro-batches.
    assert {c.kind: c.payload for c in found if c.group == "tp"} == {
        "all_gather": (3 * regions + 2 * 3) * size,
        "reduce_scatter": (2 * regions + 2 * 2) * size,
        "all_reduce": 2 * 3 * 4096 * 4,  # the loss
    }
