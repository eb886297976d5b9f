"""Evidence files: round trips, positions of the probe, top-k sets, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from certify.errors import InfrastructureError, UsageError
from runner import evidence

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("n", "rows"), [(100, 7), (7, 100), (1, 1), (64, 64), (20000, 4096)])
def test_probe_rows_are_evenly_spaced(n: int, rows: int) -> None:
    index = evidence.probe_row_index(n, rows)
    assert len(index) == min(n, rows)
    assert index[0] == 0
    assert index[-1] < n
    steps = np.diff(index)
    assert len(steps) == 0 or (steps.min() >= 1 and steps.max() - steps.min() <= 1)


def test_topk_sets_and_their_gap() -> None:
    probabilities = torch.tensor([[0.1, 0.4, 0.3, 0.2], [0.7, 0.1, 0.15, 0.05]])
    ids, gap = evidence.topk_sets(probabilities, 2)
    assert ids.dtype == torch.int16
    assert ids.tolist() == [[1, 2], [0, 2]]
    assert gap.tolist() == pytest.approx([0.1, 0.05])
    taken, _ = evidence.topk_sets(probabilities, 2, torch.tensor([[3, 1], [2, 0]]))
    assert taken.tolist() == [[1, 3], [0, 2]]
    _, alone = evidence.topk_sets(probabilities, 4)
    assert alone.tolist() == pytest.approx([0.1, 0.05])


def test_position_statistics_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])) + 2.0
    found = evidence.position_statistics(logits, torch.tensor([2, 0]))
    assert found["argmax"].tolist() == [1, 0]
    assert found["lse"].tolist() == pytest.approx([2.0, 2.0], rel=1e-6)
    assert found["label_logprob"].exp().tolist() == pytest.approx([0.3, 0.6], rel=1e-6)
    assert found["gap"].exp().tolist() == pytest.approx([0.5 / 0.3, 2.0], rel=1e-6)


def test_probe_round_trip(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    n = 6
    probe = evidence.Probe(
        argmax=np.arange(n, dtype=np.int32),
        gap=generator.random(n, dtype=np.float32),
        lse=generator.random(n, dtype=np.float32),
        label_logprob=-generator.random(n, dtype=np.float32),
        row_index=evidence.probe_row_index(n, 3),
        rows=generator.random((3, 4), dtype=np.float32),
        topk={layer: np.full((n, 2), layer, dtype=np.int16) for layer in (2, 10)},
        topk_gap={layer: np.full(n, layer, dtype=np.float32) for layer in (2, 10)},
    )
    evidence.write_probe(tmp_path, probe)
    found = evidence.read_probe(tmp_path)
    assert list(found.topk) == [2, 10]
    for name in ("argmax", "gap", "lse", "label_logprob", "row_index", "rows"):
        assert np.array_equal(getattr(found, name), getattr(probe, name))
        assert getattr(found, name).dtype == getattr(probe, name).dtype
    assert np.array_equal(found.topk_gap[10], probe.topk_gap[10])


def test_routing_round_trip(tmp_path: Path) -> None:
    log = evidence.RoutingLog([0, 2])
    assert log.write(tmp_path) is None
    tables = [np.full((2, 5, 3), step, dtype=np.int16) for step in (4, 5)]
    for step, table in zip((4, 5), tables, strict=True):
        log.append(step, table, np.zeros((2, 5), dtype=np.float32))
    log.write(tmp_path)
    found = evidence.read_routing(tmp_path)
    assert found.ids.shape == (2, 2, 5, 3)
    assert found.steps.tolist() == [4, 5]
    assert found.layers.tolist() == [0, 2]
    assert evidence.routing_digest(found.ids[1]) == evidence.routing_digest(tables[1])
    assert evidence.routing_digest(found.ids[1]) != evidence.routing_digest(found.ids[0])
    # The shape is part of it: the same numbers of other tokens are another routing.
    assert evidence.routing_digest(tables[0].reshape(2, 3, 5)) != evidence.routing_digest(tables[0])


def test_a_missing_file_and_a_full_disk_have_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError) as missing:
        evidence.read_tensors(tmp_path, evidence.GRADIENTS)
    assert missing.value.where == str(tmp_path / "evidence" / evidence.GRADIENTS)

    def full(tensors: object, partial: str) -> None:
        Path(partial).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evidence, "save_torch", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        evidence.write_tensors(tmp_path, evidence.GRADIENTS, {"a": torch.ones(2)})
    assert list((tmp_path / "evidence").iterdir()) == []
