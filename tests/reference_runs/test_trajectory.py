"""Both references over a trajectory against one that is trained in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from certify.recipes.schedule import learning_rate
from reference_runs.oracle import Oracle, read_weights
from reference_runs.trajectory import Trajectory, train
from runner import evidence
from runner.data.batches import Batches
from tests.runner.mcore import tiny
from tests.runner.mcore.conftest import megatron

if TYPE_CHECKING:
    from certify.runspec import RunSpec
    from tests.runner.mcore.tiny import Run

__all__ = ["megatron"]
pytestmark = pytest.mark.torch
KINDS = {"qwen3": 0.0, "qwen3_moe": 1e-2}  # model type -> coefficient of the auxiliary loss
STEPS = 16
LOSS, NORM = 2e-6, 2e-5  # relative
# Of the change of a tensor in step 1: 1e-5 of weights near 1, which float32 keeps to 6e-8.
DELTA = 6e-3
NEAR_TIE = 1e-5  # of the gap between two experts' probabilities
SEVERAL = "tests.runner.several"


def in_float64(spec: RunSpec, **changes: Any) -> Trajectory:
    """changes: of the training."""
    training = replace(spec.training, **changes)
    batches = Batches(spec.data, training.global_batch)

    def batch(index: int) -> tuple[torch.Tensor, torch.Tensor]:
        found = batches.read(index)
        mask = torch.from_numpy(found.mask.astype(np.bool_))
        return torch.from_numpy(found.tokens.astype(np.int64)), mask

    oracle = Oracle(spec.model.hf_config, read_weights(spec.model.weights_dir))
    rates = [learning_rate(training, n) for n in range(1, training.steps + 1)]
    return train(oracle, training, batch, rates)


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunSpec]:
    """Half of the labels are masked, so that the denominator counts."""
    return {
        kind: tiny.make_spec(
            tmp_path_factory.mktemp(kind), tiny.hf_config(kind), STEPS, mask=True, aux_loss_coef=aux
        )
        for kind, aux in KINDS.items()
    }


@pytest.fixture(scope="module")
def exact(specs: dict[str, RunSpec]) -> dict[str, Trajectory]:
    return {kind: in_float64(spec) for kind, spec in specs.items()}


@pytest.fixture(scope="module")
def references(megatron: None, specs: dict[str, RunSpec]) -> dict[str, list[Run]]:
    """backend -> runs by kind; one process for each backend."""
    return {
        backend: tiny.start_all(
            [tiny.changed(spec, backend, backend=backend) for spec in specs.values()], SEVERAL
        )
        for backend in ("mcore", "plain")
    }


def worst(run: Run, exact: Trajectory) -> tuple[float, float]:
    """Largest relative differences of loss and gradient norm; at a step whose top-k sets are
    others, which must be near-ties, the comparison ends."""
    assert run.code == 0, run.stderr
    steps = run.file.steps()
    assert sorted(steps) == list(range(1, STEPS + 1))
    end = STEPS
    if exact.topk[0]:
        found = evidence.read_routing(run.spec.run_dir)
        for number, ids in zip(found.steps.tolist(), found.ids, strict=True):
            layers = exact.topk[number - 1].values()
            differs = (ids != np.stack([layer.numpy() for layer in layers])).any(-1)
            if differs.any():
                gaps = np.stack([gap.numpy() for gap in exact.gaps[number - 1].values()])
                assert gaps[differs].max() < NEAR_TIE
                end = number - 1
                break
    assert end >= STEPS // 2, "a trajectory must be left to compare"
    loss = max(abs(steps[n].loss / exact.losses[n - 1] - 1) for n in range(1, end + 1))
    norm = max(abs(steps[n].grad_norm / exact.norms[n - 1] - 1) for n in range(1, end + 1))
    return loss, norm


def changes(run: Run, exact: Trajectory) -> float:
    """Largest relative error of what step 1 did to a tensor."""
    before = read_weights(run.spec.model.weights_dir)
    mine = evidence.read_tensors(run.spec.run_dir, evidence.PARAMETERS)
    assert set(mine) == set(exact.after_first)
    errors = []
    for name, after in exact.after_first.items():
        wanted = after.detach() - before[name].double()
        found = mine[name].double().view_as(wanted) - before[name].double()
        errors.append(float((found - wanted).norm() / wanted.norm()))
    return max(errors)


@pytest.mark.parametrize("backend", ["mcore", "plain"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_is_float64_but_for_rounding(
    kind: str, backend: str, references: dict[str, list[Run]], exact: dict[str, Trajectory]
) -> None:
    run = references[backend][list(KINDS).index(kind)]
    assert exact[kind].losses[-1] < exact[kind].losses[0] - 0.2
    assert max(exact[kind].norms) > run.spec.training.clip_grad, "else clipping would not show"
    loss, norm = worst(run, exact[kind])
    assert loss <= LOSS
    assert norm <= NORM


@pytest.mark.parametrize("backend", ["mcore", "plain"])
def test_step_1_does_to_every_tensor_what_float64_does(
    backend: str, references: dict[str, list[Run]], exact: dict[str, Trajectory]
) -> None:
    dense, _ = references[backend]
    assert changes(dense, exact["qwen3"]) <= DELTA


@pytest.mark.parametrize(
    "fault",
    [
        {"weight_decay": 0.08},
        pytest.param({"beta2": 0.96}, marks=pytest.mark.slow),
        pytest.param({"eps": 1e-6}, marks=pytest.mark.slow),
        pytest.param({"lr": 3.01e-3}, marks=pytest.mark.slow),
    ],
)
def test_a_small_fault_of_the_optimizer_is_seen(
    fault: dict[str, float], references: dict[str, list[Run]], specs: dict[str, RunSpec]
) -> None:
    dense, _ = references["mcore"]
    loss, norm = worst(dense, in_float64(specs["qwen3"], **fault))
    assert loss > 5 * LOSS or norm > 5 * NORM
