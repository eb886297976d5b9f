"""The places in the training code at which a seeded fault may act (`runner.faults`)."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Fault:
    """No fault: every call point changes nothing.

    name: as given to ``--inject``; side: candidate or reference; gates: those that should see
    it; backends: those that carry it out, elsewhere it is refused; needs_experts: it acts on
    experts or their router, and changes nothing in a dense model; needs_tensor_parallel: it
    changes nothing in a layout without; needs: what else the model or data must have for it to
    act (``tied`` embeddings, a ``router-bias``, an ``aux-loss``, a loss ``mask``,
    ``accumulation``). needs_peers: it changes nothing on one rank; acts_on: where it
    shows, in a ``step``, in a ``save`` or in a ``load``. The methods are the call points.
    """

    name = ""
    side = "candidate"
    gates: tuple[str, ...] = ()
    backends: tuple[str, ...] = ("fsdp2", "mcore")
    needs_experts = False
    needs_tensor_parallel = False
    needs = ""
    needs_peers = False
    acts_on = "step"

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return " ".join(inspect.cleandoc(type(self).__doc__ or "").split())

    def collective(self, result: Any, ranks: int) -> Any:
        """The result of a reduction in the self-test over `ranks` ranks."""
        return result

    def model_config(self, hf_config: dict[str, Any]) -> dict[str, Any]:
        """The transformers configuration the model is built from."""
        return hf_config

    def router_scores(self, logits: Any, scores: Any, ids: Any) -> Any:
        """The weights a router gives its experts. logits [n, experts]; scores, ids [n, k]."""
        return scores

    def schedule_index(self, index: int) -> int:
        """The argument of the learning-rate schedule, step - 1."""
        return index

    def loss_mask(self, mask: Any) -> Any:
        """Which labels of this rank enter the loss, [samples, positions]."""
        return mask

    def micro_batches(self, parts: list[Any]) -> list[Any]:
        """The micro-batches that this rank trains on: (inputs, labels, mask) each."""
        return parts

    def loss_scale(self, scale: float, mask: Any, count: int) -> float:
        """The factor of the summed cross-entropy of one micro-batch, one of `count` of its rank."""
        return scale

    def norm(self, norm: float, shards: Iterable[Any]) -> float:
        """The gradient norm that clips and is recorded."""
        return norm

    def after_update(self, shards: Iterable[Any]) -> None:
        """The weights after the optimizer has moved them."""

    def recorded_loss(self, step: int, loss: float) -> float:
        """The loss that the record of a step says."""
        return loss

    def aux_coefficient(self, coefficient: float) -> float:
        """The factor of the auxiliary loss inside the loss."""
        return coefficient

    def gradients(self, shards: Iterable[Any], ep_size: int) -> None:
        """Local gradients after the backward pass (`runner.parallel.shards.Shard`)."""

    def decays(self, name: str, n_dims: int) -> bool:
        """Whether weight decay applies to a parameter of n_dims published dimensions."""
        return n_dims >= 2

    def divided(self, is_divided: bool) -> bool:
        """Whether a weight is known as divided over tensor-parallel ranks (mcore)."""
        return is_divided

    def after_load(self, optimizer: Any) -> None:
        """The optimizer after a checkpoint was loaded into it."""

    def while_saving(
        self, shards: Iterable[Any], buffers: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Around a save: what the tensors hold inside is what the files will hold."""
        return nullcontext()

    def after_restore(self, model: Any, shards: Iterable[Any], resharding: bool) -> None:
        """The weights after a load. resharding: laid out anew (`CheckpointSpec.resave`)."""

    def cursor(self, next_batch: int) -> int:
        """The data cursor after a checkpoint was loaded."""
        return next_batch

    def restores_rng(self) -> bool:
        """Whether random states are restored from a checkpoint."""
        return True
