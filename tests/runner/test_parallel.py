"""Module patterns, mesh sizes and refusals, without starting other processes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from certify.errors import InfrastructureError, UsageError
from certify.runspec import ParallelSpec
from runner import collectives
from runner.faults import FAULTS, NO_FAULT
from runner.parallel import expert, mesh
from runner.parallel.fsdp import matches

pytestmark = pytest.mark.torch

NAMES = ["model", "model.layers.0", "model.layers.0.mlp", "model.layers.10", "lm_head"]


def test_patterns_stand_for_one_component() -> None:
    found = matches(("model.layers.{*}", "lm_head", "model.layers.{*}.mlp.router"), NAMES)
    assert found == {
        "model.layers.{*}": ["model.layers.0", "model.layers.10"],
        "lm_head": ["lm_head"],
        "model.layers.{*}.mlp.router": [],
    }
    assert matches(("model_layers.0",), ["modelxlayers.0"]) == {"model_layers.0": []}


@pytest.mark.parametrize(
    ("sizes", "ranks", "where"),
    [
        ({"fsdp_size": 2}, 4, "parallel.fsdp_size"),
        ({"fsdp_size": 2, "replicate_size": 2, "tp_size": 2}, 4, "parallel.tp_size"),
        ({"fsdp_size": 4, "ep_size": 3}, 4, "parallel.ep_size"),
        ({"fsdp_size": 4, "ep_size": 2, "ep_fsdp_size": 4}, 4, "parallel.ep_size"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_key(
    sizes: dict[str, int], ranks: int, where: str
) -> None:
    with pytest.raises(UsageError) as refused:
        mesh.check(ParallelSpec(**sizes), ranks)
    assert refused.value.where == where


def test_sizes_that_fit() -> None:
    mesh.check(ParallelSpec(fsdp_size=4, ep_size=2, ep_fsdp_size=2), 4)
    mesh.check(ParallelSpec(fsdp_size=2, replicate_size=2, ep_size=2), 4)
    # Without expert parallel the experts follow the dense layout, whatever ep_fsdp_size says.
    mesh.check(ParallelSpec(fsdp_size=2, ep_fsdp_size=7), 2)


class Experts(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.num_experts = n
        self.up = nn.Parameter(torch.zeros(n, 3, 2))


def test_experts_are_divided_in_equal_blocks() -> None:
    module = Experts(6)
    expert.divide_experts(module, "experts", 3)
    assert module.num_experts == 2
    assert module.up.shape == (2, 3, 2)
    with pytest.raises(UsageError, match="6 experts cannot be divided over ep_size 4"):
        expert.divide_experts(Experts(6), "experts", 4)
    with pytest.raises(UsageError, match=r"mlp \(Linear\) does not hold fused expert tensors"):
        expert.divide_experts(nn.Linear(2, 2), "mlp", 2)


class OneRank:
    """Stands for the process group of a self-test."""

    def __init__(self) -> None:
        import torch.distributed as dist

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def __enter__(self) -> OneRank:
        return self

    def __exit__(self, *_: object) -> None:
        import torch.distributed as dist

        dist.destroy_process_group()


def test_the_self_test_names_each_wrong_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    from runner.device import Device

    records: list[Any] = []
    with OneRank():
        device = Device("cpu")
        meshes = mesh.build(ParallelSpec(), "cpu")
        collectives.self_test(meshes, device, torch.float32, NO_FAULT, records.append)
        assert records
        assert all(record.ok and not record.expected for record in records)
        records.clear()
        wrong = FAULTS["collective-wrong"]
        with pytest.raises(InfrastructureError) as stopped:
            collectives.self_test(meshes, device, torch.float32, wrong, records.append)
        failed = {record.op for record in records if not record.ok}
        assert failed == {"all_reduce_sum", "reduce_scatter_sum", "fsdp_gradient_sum"}
        assert all(op in str(stopped.value) for op in failed)
        assert "[1.0, 2.0, 3.0, 4.0], found [0.5, 1.0, 1.5, 2.0]" in str(stopped.value)


def test_gathered_bytes_keep_type_and_shape() -> None:
    with OneRank():
        for dtype in (torch.int16, torch.float32, torch.bool):
            part = torch.ones(2, 3, dtype=dtype)
            whole = collectives.gather_bytes(part)
            assert whole.shape == (1, 2, 3)
            assert torch.equal(whole[0], part)


def test_a_full_disk_stops_the_save_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from runner import checkpoint
    from runner.digests import TrainingState
    from runner.names import Names

    def full(entries: object, checkpoint_id: str) -> None:
        (tmp_path / "step-000001.tmp").mkdir()
        (tmp_path / "step-000001.tmp" / "__0_0.distcp").write_bytes(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file")

    monkeypatch.setattr(checkpoint.dcp, "save", full)
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))])
    state = TrainingState([], Names(), optimizer, 1, lambda: b"{}")
    with OneRank(), pytest.raises(InfrastructureError, match="cannot write a checkpoint"):
        checkpoint.save(tmp_path / "step-000001", state, 1, "run")
    assert list(tmp_path.iterdir()) == []
