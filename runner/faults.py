"""Seeded faults: each makes a run wrong in one known way, to show that a gate sees it.

A fault overrides a few of the call points of `Fault`; the training code calls each of them at
one place and has no other branch for faults. The docstring of a fault is its summary for users.
Faults of the reference side are carried out by its own backend and only named here. Nothing
heavy is imported, so that any process can list ``FAULTS``.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from runner.callpoints import Fault
from runner.checkpoint_faults import (
    ExpertBlockLost,
    ExpertShardSwapped,
    RouterBiasNotSaved,
    TiedUntied,
    VocabularyRowsLost,
)
from runner.training_faults import (
    ClipBeforeReduce,
    ClipPerExpertGroup,
    DuplicatedBatch,
    LastMicroBatchDropped,
    LowPrecisionMasters,
    MeanOfMeans,
    NanPrintedAsZero,
    PaddingInLoss,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.runspec import RunSpec

# Names of the gates in `Fault.gates`; `collectives` is the self-test before training.
GATES = (
    "collectives",
    "plan-followed",
    "finite",
    "forward-parity",
    "backward-parity",
    "first-update",
    "loss-curve",
    "resume",
    "reshard",
)


class LearningRateOffByOne(Fault):
    """Step n trains with the learning rate of step n + 1, as when the scheduler steps too early."""

    name = "lr-off-by-one"
    gates = ("plan-followed",)

    def schedule_index(self, index: int) -> int:
        return index + 1


class AuxLossFactor(Fault):
    """The auxiliary loss is left out of the loss; the recorded configuration is unchanged."""

    name = "aux-loss-zero"
    needs_experts = True
    needs = "aux-loss"
    gates = ("backward-parity", "loss-curve")

    factor = 0.0

    def aux_coefficient(self, coefficient: float) -> float:
        return coefficient * self.factor


class AuxLossDoubled(AuxLossFactor):
    """The auxiliary loss enters twice, as when each of two ranks adds the global value."""

    name = "aux-loss-doubled"
    needs_experts = True
    needs = "aux-loss"
    gates = ("backward-parity", "loss-curve")

    factor = 2.0


class ExpertGradientsScaled(Fault):
    """Expert gradients are ep times too large: divided by the wrong group's size."""

    name = "expert-grads-scaled"
    needs_experts = True
    needs_peers = True
    gates = ("backward-parity",)

    def gradients(self, shards: Iterable[Any], ep_size: int) -> None:
        for shard in shards:
            if shard.is_expert and shard.local.grad is not None:
                shard.local.grad.mul_(ep_size)


class GradientsAveraged(Fault):
    """Gradients are averaged over ranks although the loss is scaled by the global count."""

    name = "grads-averaged"
    gates = ("backward-parity",)

    def gradients(self, shards: Iterable[Any], ep_size: int) -> None:
        import torch.distributed as dist

        for shard in shards:
            if shard.local.grad is not None:
                shard.local.grad.div_(max(dist.get_world_size(), 2))


class LastSampleDropped(Fault):
    """The last sample of every rank is left out of the loss and of its token count."""

    name = "drop-last-sample"
    gates = ("backward-parity", "loss-curve")

    def loss_mask(self, mask: Any) -> Any:
        mask = mask.clone()
        mask[-1] = 0
        return mask


class RopeBase(Fault):
    """Rotary embeddings use a base 100 times too small."""

    name = "wrong-rope-base"
    gates = ("forward-parity", "backward-parity", "loss-curve")

    def model_config(self, hf_config: dict[str, Any]) -> dict[str, Any]:
        config = dict(hf_config)
        base = config.get("rope_theta", 10000.0)
        nested = config.get("rope_parameters")
        if isinstance(nested, dict):
            base = nested.get("rope_theta", base)
            config["rope_parameters"] = {**nested, "rope_theta": base / 100.0}
        if "rope_theta" in config or not isinstance(nested, dict):
            config["rope_theta"] = base / 100.0
        return config


class RouterDoubleSoftmax(Fault):
    """Router probabilities go through a second softmax: same experts, flatter weights."""

    name = "router-double-softmax"
    needs_experts = True
    backends = ("fsdp2",)
    gates = ("forward-parity", "backward-parity", "loss-curve")

    def router_scores(self, logits: Any, scores: Any, ids: Any) -> Any:
        twice = logits.float().softmax(-1).softmax(-1).gather(-1, ids)
        # Normalised as the router's own scores are: to their sum, whatever that is.
        twice = twice / twice.sum(-1, keepdim=True) * scores.sum(-1, keepdim=True)
        return twice.to(scores.dtype)


class NormWeightsDecayed(Fault):
    """Weight decay applies to every parameter, one-dimensional ones included."""

    name = "norm-weights-decayed"
    # Norm weights start at one: the decay of a step is far below what first-update's cosines
    # show. The optimizer's own count of decayed parameters differs from the plan's.
    gates = ("plan-followed",)

    def decays(self, name: str, n_dims: int) -> bool:
        return True


class AdamMomentsNotRestored(Fault):
    """After a resume Adam's moments start at zero; its step count is right."""

    name = "adam-moments-not-restored"
    acts_on = "load"
    gates = ("resume",)

    def after_load(self, optimizer: Any) -> None:
        for state in optimizer.state.values():
            state["exp_avg"].zero_()
            state["exp_avg_sq"].zero_()


class SharedAdamStep(Fault):
    """After a resume all parameters share one Adam step tensor, which counts once for each."""

    name = "shared-adam-step"
    acts_on = "load"
    gates = ("resume",)

    def after_load(self, optimizer: Any) -> None:
        states = list(optimizer.state.values())
        for state in states:
            state["step"] = states[0]["step"]


class TensorParallelUnset(Fault):
    """Weights are not known to be divided over tensor-parallel ranks: mcore's gradient norm counts
    some of their parts on one rank only."""

    name = "tensor-parallel-unset"
    needs_tensor_parallel = True
    backends = ("mcore",)
    gates = ("backward-parity",)

    def divided(self, is_divided: bool) -> bool:
        return False


class DataCursorNotRestored(Fault):
    """After a resume the data order starts at batch 0 again."""

    name = "data-cursor-not-restored"
    acts_on = "load"
    gates = ("resume",)

    def cursor(self, next_batch: int) -> int:
        return 0


class RngNotRestored(Fault):
    """After a resume the random generators are those of a fresh start."""

    name = "rng-not-restored"
    acts_on = "load"
    gates = ("resume",)

    def restores_rng(self) -> bool:
        return False


class CollectiveWrong(Fault):
    """Reductions return the average where the sum was asked for."""

    name = "collective-wrong"
    gates = ("collectives",)

    def collective(self, result: Any, ranks: int) -> Any:
        return result / max(ranks, 2)


class ReferenceWeight(Fault):
    """One weight tensor of the reference is 1% larger."""

    name = "reference-weight-1pct"
    backends = ("mcore",)
    side = "reference"
    # Injected after the initial weights were recorded: the plan is followed as far as is known.
    gates = ("forward-parity",)


class ReferenceAuxZero(Fault):
    """The reference trains without the auxiliary loss."""

    name = "reference-aux-zero"
    needs_experts = True
    needs = "aux-loss"
    backends = ("mcore",)
    side = "reference"
    gates = ("plan-followed", "backward-parity", "loss-curve")


NO_FAULT = Fault()

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        LearningRateOffByOne(),
        AuxLossFactor(),
        AuxLossDoubled(),
        ExpertGradientsScaled(),
        GradientsAveraged(),
        LastSampleDropped(),
        RopeBase(),
        RouterDoubleSoftmax(),
        NormWeightsDecayed(),
        AdamMomentsNotRestored(),
        SharedAdamStep(),
        TensorParallelUnset(),
        DataCursorNotRestored(),
        RngNotRestored(),
        CollectiveWrong(),
        LastMicroBatchDropped(),
        PaddingInLoss(),
        MeanOfMeans(),
        LowPrecisionMasters(),
        ClipBeforeReduce(),
        ClipPerExpertGroup(),
        DuplicatedBatch(),
        NanPrintedAsZero(),
        ExpertShardSwapped(),
        ExpertBlockLost(),
        VocabularyRowsLost(),
        RouterBiasNotSaved(),
        TiedUntied(),
        ReferenceWeight(),
        ReferenceAuxZero(),
    )
}


def of_spec(spec: RunSpec) -> Fault:
    """The fault that this run carries out, or one that changes nothing.

    Raises UsageError for an unknown name, a fault of the other side, and one that this backend
    does not carry out: a run that trains on unchanged would look as if a gate had seen nothing.
    """
    if spec.fault is None:
        return NO_FAULT
    fault = FAULTS.get(spec.fault)
    if fault is None:
        near = get_close_matches(spec.fault, FAULTS, n=1)
        raise UsageError(
            f"unknown fault {spec.fault!r}",
            where="spec.json: fault",
            expected=f"{near[0]!r}?" if near else "one of " + ", ".join(FAULTS),
        )
    if fault.side != spec.role:
        raise UsageError(
            f"fault {fault.name!r} is one of the {fault.side} side, this run is a {spec.role}",
            where="spec.json: fault",
        )
    if spec.backend not in fault.backends:
        able = [n for n, f in FAULTS.items() if f.side == spec.role and spec.backend in f.backends]
        raise UsageError(
            f"the {spec.backend} backend does not carry out the fault {fault.name!r}",
            where="spec.json: fault",
            expected="one of " + ", ".join(able) if able else "no fault",
        )
    return fault


def listing() -> str:
    """JSON of all faults: what `Fault` says of each, by name."""
    table = {
        name: {
            "summary": f.summary,
            "side": f.side,
            "gates": list(f.gates),
            "backends": list(f.backends),
            "needs_experts": f.needs_experts,
            "needs_tensor_parallel": f.needs_tensor_parallel,
            "needs": f.needs,
            "needs_peers": f.needs_peers,
            "acts_on": f.acts_on,
        }
        for name, f in FAULTS.items()
    }
    return json.dumps(table, indent=1)


if __name__ == "__main__":
    print(listing())
