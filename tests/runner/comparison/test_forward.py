"""Forward statistics against independent calculations on made-up probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from certify.errors import UsageError
from runner import evidence
from runner.comparison.forward import forward, require_samples
from runner.comparison.probe_file import ProbeFile

pytestmark = pytest.mark.torch

VOCAB, LENGTH, SAMPLES = 20, 5, 6
N = LENGTH * SAMPLES


class Output(NamedTuple):
    logits: torch.Tensor
    topk: dict[int, torch.Tensor]
    topk_gap: dict[int, torch.Tensor]


class World:
    """A made-up oracle over a probe, and sides that differ from it as a test says."""

    def __init__(self, seed: int = 0, layers: tuple[int, ...] = ()) -> None:
        rng = np.random.default_rng(seed)
        self.samples = rng.integers(0, VOCAB, (SAMPLES, LENGTH + 1)).astype(np.int32)
        self.logits = rng.normal(size=(N, VOCAB))
        self.sets = {at: np.tile(np.int16([0, 2]), (N, 1)) for at in layers}
        self.gap = {at: rng.uniform(0.1, 0.2, N) for at in layers}
        self._asked = 0

    def oracle(self, tokens: torch.Tensor) -> Output:
        """Answers in the order in which it is asked, whatever the size of the chunks."""
        start = self._asked
        stop = self._asked = start + tokens.numel()
        return Output(
            torch.from_numpy(self.logits[start:stop]).view(len(tokens), LENGTH, VOCAB),
            {at: torch.from_numpy(ids[start:stop]) for at, ids in self.sets.items()},
            {at: torch.from_numpy(gap[start:stop]) for at, gap in self.gap.items()},
        )

    def side(
        self,
        folder: Path,
        logits: np.ndarray[Any, Any],
        sets: dict[int, Any] | None = None,
        gap: dict[int, Any] | None = None,
        rows: int = 12,
    ) -> ProbeFile:
        kept = logits.astype(np.float32)
        labels = torch.from_numpy(self.samples[:, 1:].reshape(-1).astype(np.int64))
        statistics = evidence.position_statistics(torch.from_numpy(kept), labels)
        index = evidence.probe_row_index(N, rows)
        probe = evidence.Probe(
            **{name: value.numpy() for name, value in statistics.items()},
            row_index=index,
            rows=kept[index],
            topk=self.sets if sets is None else sets,
            topk_gap={at: value.astype(np.float32) for at, value in (gap or self.gap).items()},
        )
        return ProbeFile(evidence.write_probe(folder, probe))


def log_softmax(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def test_forward_statistics_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.comparison.exact.BLOCK", 2 * LENGTH * VOCAB)
    monkeypatch.setattr("runner.comparison.forward.BLOCK", 5 * VOCAB)
    world, rng = World(), np.random.default_rng(1)
    noise = {"candidate": rng.normal(size=(N, VOCAB)), "reference": rng.normal(size=(N, VOCAB))}
    logits = {
        "candidate": (world.logits + 3e-3 * noise["candidate"]).astype(np.float32),
        "reference": (world.logits + 2e-3 * noise["reference"]).astype(np.float32),
    }
    sides = {name: world.side(tmp_path / name, value) for name, value in logits.items()}
    values, classes = forward(sides["candidate"], sides["reference"], world.samples, world.oracle)
    index = (np.arange(12) * N) // 12
    labels = world.samples[:, 1:].reshape(-1)
    logs = {name: log_softmax(value.astype(np.float64)) for name, value in logits.items()}
    loss = {name: -value[np.arange(N), labels].mean() for name, value in logs.items()}
    assert classes == {}
    assert values["positions"] == N
    assert values["rows"] == values["rows_compared"] == 12
    for name in logits:
        error = (logits[name].astype(np.float64) - world.logits)[index]
        assert values[f"loss_{name}"] == pytest.approx(loss[name], rel=1e-6)
        assert values[f"logits_max_error_{name}"] == pytest.approx(np.abs(error).max())
        assert values[f"logits_rms_error_{name}"] == pytest.approx(np.sqrt((error**2).mean()))
    oracle_loss = -log_softmax(world.logits)[np.arange(N), labels].mean()
    assert values["loss_oracle"] == pytest.approx(oracle_loss, rel=1e-12)
    expected = abs(loss["candidate"] - loss["reference"]) / loss["reference"]
    assert values["loss_rel_diff"] == pytest.approx(expected, rel=1e-2)
    assert values["logits_rms_oracle"] == pytest.approx(np.sqrt((world.logits[index] ** 2).mean()))
    kl = (np.exp(logs["reference"]) * (logs["reference"] - logs["candidate"])).sum(-1)[index]
    assert values["kl_mean"] == pytest.approx(kl.mean(), rel=1e-6)
    assert values["kl_max"] == pytest.approx(kl.max(), rel=1e-6)
    same = logits["candidate"].argmax(-1) == logits["reference"].argmax(-1)
    assert values["top1_disagreements"] == (~same).sum()


def test_top1_near_ties_are_counted_apart(tmp_path: Path) -> None:
    world = World()
    top = np.sort(world.logits, -1)
    world.logits[3, world.logits[3].argmax()] = top[3, -2] + 1e-7  # a tie for the oracle
    reference = world.logits + 1e-6
    candidate = world.logits + 1.5e-6
    best, second = np.argsort(world.logits[3])[[-1, -2]]
    candidate[3, [best, second]] = candidate[3, [second, best]] + [0.0, 1e-6]
    candidate[9, world.logits[9].argmin()] += 50  # and a real disagreement
    values, _ = forward(
        world.side(tmp_path / "c", candidate),
        world.side(tmp_path / "r", reference),
        world.samples,
        world.oracle,
    )
    assert values["top1_disagreements"] == 2
    assert values["top1_near_ties"] == 1
    assert values["top1_oracle_disagreements_reference"] == 0


def test_equal_sides_have_no_difference(tmp_path: Path) -> None:
    world = World(layers=(0,))
    sides = [world.side(tmp_path / name, world.logits) for name in "cr"]
    values, classes = forward(*sides, world.samples, world.oracle, again=sides[1])
    assert values["loss_rel_diff"] == values["kl_mean"] == values["top1_disagreements"] == 0
    assert values["routing_disagreements"] == values["routing_near_ties"] == 0
    assert values["routing_sets"] == N
    assert classes["layer.0"]["disagreements"] == 0
    assert values["again_loss_rel_diff"] == values["again_kl_mean"] == 0


def test_shifted_logits_show_in_the_error_and_not_in_the_loss(tmp_path: Path) -> None:
    world = World()
    values, _ = forward(
        world.side(tmp_path / "c", world.logits + 0.25),
        world.side(tmp_path / "r", world.logits),
        world.samples,
        world.oracle,
    )
    assert values["logits_rms_error_candidate"] == pytest.approx(0.25, rel=1e-5)
    assert values["logits_rms_error_reference"] < 1e-6  # type: ignore[operator]
    assert values["loss_rel_diff"] < 1e-6  # type: ignore[operator]


def test_nan_logits_stay_visible(tmp_path: Path) -> None:
    world = World()
    broken = world.logits.copy()
    broken[0, 0] = np.nan
    values, _ = forward(
        world.side(tmp_path / "c", broken),
        world.side(tmp_path / "r", world.logits),
        world.samples,
        world.oracle,
    )
    for name in ("loss_candidate", "loss_rel_diff", "logits_max_error_candidate", "kl_mean"):
        assert np.isnan(values[name])
    assert np.isfinite(values["logits_max_error_reference"])


def test_top_k_sets_near_ties_and_what_they_move(tmp_path: Path) -> None:
    """One flip at a tie moves the rest of its sample; one elsewhere is a disagreement."""
    world = World(layers=(0, 3))
    at = 2 * LENGTH + 2  # third position of the third sample
    world.gap[0][at] = 1e-9
    rounded = {layer: gap + 2e-8 for layer, gap in world.gap.items()}
    candidate_sets = {layer: ids.copy() for layer, ids in world.sets.items()}
    candidate_sets[0][at] = [0, 1]  # the tie
    candidate_sets[3][at + 1] = [1, 2]  # later in the same sample: follows from it
    candidate_sets[3][at - 1] = [1, 2]  # before it: a fault
    logits = world.logits.copy()
    logits[at : 3 * LENGTH] += 5.0  # what the other expert did to this and later positions
    values, classes = forward(
        world.side(tmp_path / "c", logits, candidate_sets, rounded, rows=N),
        world.side(tmp_path / "r", world.logits, None, rounded, rows=N),
        world.samples,
        world.oracle,
    )
    assert values["routing_sets"] == 2 * N
    assert values["routing_disagreements"] == 3
    assert values["routing_near_ties"] == 2
    assert values["positions_after_near_tie"] == 3
    assert values["rows_compared"] == N - 3
    assert values["logits_max_error_candidate"] < 1e-6  # type: ignore[operator]
    assert classes["layer.0"]["near_tie_gap"] == pytest.approx(2e-8, rel=0.5)
    assert classes["layer.3"]["disagreements"] == 2
    assert classes["layer.3"]["near_ties"] == 1
    assert classes["layer.3"]["oracle_disagreements_candidate"] == 2
    assert classes["layer.3"]["oracle_disagreements_reference"] == 0


def test_faulty_side_does_not_widen_near_ties(tmp_path: Path) -> None:
    world = World(layers=(0,))
    swapped = {0: world.sets[0].copy()}
    swapped[0][: N // 2] = [0, 1]  # the other samples show how large its error of the gap is
    wild = {0: world.gap[0] + 1.0}
    for candidate_is_faulty in (True, False):
        world._asked = 0
        faulty = world.side(tmp_path / "f", world.logits, swapped, wild)
        right = world.side(tmp_path / "g", world.logits)
        pair = (faulty, right) if candidate_is_faulty else (right, faulty)
        values, _ = forward(*pair, world.samples, world.oracle)
        assert values["routing_disagreements"] == N // 2
        assert values["routing_near_ties"] == 0


def test_without_oracle_what_needs_one_is_none(tmp_path: Path) -> None:
    world = World(layers=(1,))
    sides = [world.side(tmp_path / name, world.logits) for name in "cr"]
    values, _ = forward(*sides, world.samples, None)
    assert values["top1_near_ties"] is None
    assert values["routing_near_ties"] is None
    assert "logits_max_error_candidate" not in values
    assert values["routing_disagreements"] == 0
    assert values["kl_mean"] == 0


def test_probes_of_different_questions_are_refused(tmp_path: Path) -> None:
    world = World(layers=(1,))
    right = world.side(tmp_path / "r", world.logits)
    for other in (
        world.side(tmp_path / "rows", world.logits, rows=11),
        World().side(tmp_path / "dense", world.logits),
        world.side(tmp_path / "k", world.logits, {1: np.zeros((N, 3), dtype=np.int16)}),
    ):
        with pytest.raises(UsageError, match="the candidate's probe"):
            forward(other, right, world.samples, None)
    with pytest.raises(UsageError, match="the candidate's probe"):
        forward(right, right, world.samples[:-1], None)
    with pytest.raises(UsageError, match="a probe of shape"):
        require_samples(world.samples.astype(np.int64), "x")
    (tmp_path / "no.safetensors").write_bytes(b"no")
    with pytest.raises(UsageError, match="cannot read the probe"):
        ProbeFile(tmp_path / "no.safetensors")
