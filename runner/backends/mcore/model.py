"""Builds Megatron's GPTModel, wraps it in Megatron's DDP, and gives it Megatron's optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from runner.backends.mcore import config as configs
from runner.backends.mcore import families, specs

if TYPE_CHECKING:
    from megatron.core.optimizer import MegatronOptimizer
    from megatron.core.transformer import TransformerConfig

    from certify.runspec import RunSpec


class Parts(NamedTuple):
    """What trains on this rank, all of Megatron. chunks: the wrapped parts of the model, one for
    each virtual pipeline stage."""

    chunks: list[DistributedDataParallel]
    optimizer: MegatronOptimizer
    scheduler: OptimizerParamScheduler

    @property
    def models(self) -> list[GPTModel]:
        return [chunk.module for chunk in self.chunks]

    @property
    def inner(self) -> list[Any]:
        """Megatron's optimizers, of dense and of expert parameters, each around one of torch."""
        return list(getattr(self.optimizer, "chained_optimizers", [self.optimizer]))


def build(spec: RunSpec) -> list[GPTModel]:
    """This rank's parts of GPTModel with the local spec (Megatron's own modules, no Transformer
    Engine), fp32.

    Their values are Megatron's initialisation until `weights.load` replaces them.
    """
    config = configs.transformer(spec)
    if spec.parallel.vpp_size == 1:
        return [_chunk(spec, config, None)]
    return [_chunk(spec, config, stage) for stage in range(spec.parallel.vpp_size)]


def _chunk(spec: RunSpec, config: TransformerConfig, stage: int | None) -> GPTModel:
    hf = spec.model.hf_config
    where: dict[str, Any] = {} if stage is None else {"vp_stage": stage}
    rope = families.rope(hf)
    ends = {"ignore_virtual": False, **where}
    if rope["rope_type"] == "llama3":
        where |= {"rope_scaling": True, "rope_scaling_factor": float(rope["factor"])}
    if rope["rope_type"] == "linear":
        where |= {"seq_len_interpolation_factor": float(rope["factor"])}
    model = GPTModel(
        config,
        specs.layers(hf, config, stage),
        vocab_size=hf["vocab_size"],
        max_sequence_length=spec.data.seq_length,
        pre_process=parallel_state.is_pipeline_first_stage(**ends),
        post_process=parallel_state.is_pipeline_last_stage(**ends),
        share_embeddings_and_output_weights=families.tied(hf),
        position_embedding_type="rope",
        rotary_percent=rope["share"],
        rotary_base=rope["rope_theta"],
        **where,
    )
    specs.finish(model, hf)
    return model.to(torch.device(spec.device))


def wrap(models: list[GPTModel], spec: RunSpec) -> Parts:
    """Megatron's training path around a model that holds its initial weights.

    Two couplings are easy to miss: gradients are finished by `finalize_model_grads`, which the
    schedule only calls when the configuration names it; and the weight decay of a parameter
    group is written by the scheduler (decay x wd_mult), which is why one is built even for a
    constant rate: without it one-dimensional parameters would be decayed too.
    """
    training = spec.training
    wanted = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=False,
        use_distributed_optimizer=spec.parallel.distributed_optimizer,
    )
    chunks = [
        # Only the first chunk's buffers are cut into buckets, as in Megatron's own training.
        DistributedDataParallel(model.config, wanted, model, disable_bucketing=number > 0)
        for number, model in enumerate(models)
    ]
    config = models[0].config
    config.finalize_model_grads_func = finalize_model_grads
    syncs = [chunk.no_sync for chunk in chunks]
    config.no_sync_func = syncs[0] if len(syncs) == 1 else syncs
    # Unused gloo twins of the groups are neither made (`parallel`) nor asked for here.
    optimizer = get_megatron_optimizer(
        configs.optimizer(spec), chunks, use_gloo_process_groups=False
    )
    scheduler = OptimizerParamScheduler(
        optimizer,
        init_lr=training.warmup_init_lr,
        max_lr=training.lr,
        min_lr=training.min_lr,
        lr_warmup_steps=training.warmup_steps,
        lr_decay_steps=training.decay_steps,
        lr_decay_style=training.schedule,
        start_wd=training.weight_decay,
        end_wd=training.weight_decay,
        wd_incr_steps=training.steps,
        wd_incr_style="constant",
    )
    for chunk in chunks:
        chunk.train()
    return Parts(chunks, optimizer, scheduler)
