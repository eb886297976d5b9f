"""Where each of this rank's parameters belongs in the whole model, and how it is cut there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state

from runner.backends.mcore.mapping import TWO

if TYPE_CHECKING:
    from torch import Tensor, nn

    from runner.backends.mcore.mapping import WeightMap

_EMBEDDING = "embedding.word_embeddings.weight"
_HEAD = "output_layer.weight"


@dataclass(frozen=True)
class Place:
    """One parameter. name: Megatron's name in the whole model (global layer and expert numbers);
    dim: the dimension that tensor parallel divides, None for a whole one; halves: two matrices
    stacked in that dimension, each divided by itself; is_expert: owned by one expert-parallel
    rank; is_copy: the last stage's copy of tied embeddings; is_buffer: no parameter but a buffer of
    the checkpoint, without gradient and moments."""

    name: str
    parameter: Any
    dim: int | None
    halves: bool
    is_expert: bool
    is_copy: bool
    is_buffer: bool = False

    @property
    def data_group(self) -> Any:
        """The ranks that hold the same values."""
        if self.is_expert:
            return parallel_state.get_expert_data_parallel_group()
        return parallel_state.get_data_parallel_group(with_context_parallel=True)

    @property
    def is_first(self) -> bool:
        """Whether this rank speaks for the parameter: one rank of all does."""
        first_copy = dist.get_rank(self.data_group) == 0
        return (
            first_copy and parallel_state.get_tensor_model_parallel_rank() == 0 and not self.is_copy
        )

    @property
    def numel(self) -> int:
        """Elements of the whole parameter."""
        return int(self.parameter.numel()) * (1 if self.dim is None else _tensor_ranks())

    def whole(self, local: Tensor) -> Tensor:
        """The whole tensor from the parts of the tensor-parallel group (collective there)."""
        ranks = _tensor_ranks()
        if self.dim is None or ranks == 1:
            return local
        parts = [
            torch.empty_like(local, memory_format=torch.contiguous_format) for _ in range(ranks)
        ]
        dist.all_gather(
            parts, local.contiguous(), group=parallel_state.get_tensor_model_parallel_group()
        )
        if self.halves:
            pairs = [part.chunk(2, self.dim) for part in parts]
            parts = [pair[half] for half in (0, 1) for pair in pairs]
        return torch.cat(parts, self.dim)

    def part(self, whole: Tensor) -> Tensor:
        """This rank's part of a whole tensor."""
        ranks, rank = _tensor_ranks(), parallel_state.get_tensor_model_parallel_rank()
        if self.dim is None or ranks == 1:
            return whole
        if not self.halves:
            return whole.chunk(ranks, self.dim)[rank]
        mine = [half.chunk(ranks, self.dim)[rank] for half in whole.chunk(2, self.dim)]
        return torch.cat(mine, self.dim)


def _tensor_ranks() -> int:
    return int(parallel_state.get_tensor_model_parallel_world_size())


def places(models: list[Any], names: WeightMap) -> list[Place]:
    """Every parameter of this rank's model chunks and every buffer that the rules name, in
    order."""
    found = []
    for model in models:
        found += [_place(model, name, held, names) for name, held in model.named_parameters()]
        for name, held in model.named_buffers():
            rule = names.rules.get(global_name(model, name))
            if rule is not None and rule.buffer:
                # What asks every place for its gradient finds that there is none.
                held.main_grad = None
                found.append(Place(rule.mcore, held, None, False, False, False, True))
    return found


def _place(model: Any, local_name: str, parameter: nn.Parameter, names: WeightMap) -> Place:
    name = global_name(model, local_name)
    is_copy = name == _HEAD and name not in names.rules
    name = _EMBEDDING if is_copy else name
    rule = names.rules.get(name)
    divided = bool(getattr(parameter, "tensor_model_parallel", False))
    return Place(
        name=name,
        parameter=parameter,
        dim=int(parameter.partition_dim) if divided else None,
        halves=rule is not None and rule.layout in TWO,
        # Megatron marks what its dense data-parallel group must not reduce.
        is_expert=not getattr(parameter, "allreduce", True),
        is_copy=is_copy,
    )


def global_name(model: Any, name: str) -> str:
    """Megatron's name of a parameter in the whole model: a chunk numbers its layers from 0, an
    expert-parallel rank its experts."""
    words = name.split(".")
    if words[:2] == ["decoder", "layers"]:
        words[2] = str(model.decoder.layers[int(words[2])].layer_number - 1)
    if "local_experts" in words:
        at = words.index("local_experts") + 1
        ranks = parallel_state.get_expert_model_parallel_world_size()
        mine = model.config.num_moe_experts // ranks
        first = parallel_state.get_expert_model_parallel_rank() * mine
        words[at] = str(int(words[at]) + first)
    return ".".join(words)
