"""Builds Megatron's GPTModel, wraps it in Megatron's DDP, and gives it Megatron's optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
    get_gpt_layer_local_spec,
)
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from runner.backends.mcore import config as configs
from runner.backends.mcore import families

if TYPE_CHECKING:
    from megatron.core.optimizer import MegatronOptimizer

    from certify.runspec import RunSpec


class Parts(NamedTuple):
    """What trains: the wrapped model, the optimizer and the schedule, all of Megatron."""

    ddp: DistributedDataParallel
    optimizer: MegatronOptimizer
    scheduler: OptimizerParamScheduler

    @property
    def model(self) -> GPTModel:
        return self.ddp.module


def build(spec: RunSpec) -> GPTModel:
    """GPTModel with the local spec (Megatron's own modules, no Transformer Engine), fp32.

    Its values are Megatron's initialisation until `weights.load` replaces them.
    """
    hf = spec.model.hf_config
    config = configs.transformer(spec)
    if config.num_moe_experts:
        layers = get_gpt_decoder_block_spec(
            config, use_transformer_engine=False, normalization="RMSNorm"
        )
    else:
        layers = get_gpt_layer_local_spec(qk_layernorm=config.qk_layernorm, normalization="RMSNorm")
    model = GPTModel(
        config,
        layers,
        vocab_size=hf["vocab_size"],
        max_sequence_length=spec.data.seq_length,
        share_embeddings_and_output_weights=bool(hf.get("tie_word_embeddings", False)),
        position_embedding_type="rope",
        rotary_base=families.rope_theta(hf),
    )
    return model.to(torch.device(spec.device))


def wrap(model: GPTModel, spec: RunSpec) -> Parts:
    """Megatron's training path around a model that holds its initial weights.

    Two couplings are easy to miss: gradients are finished by `finalize_model_grads`, which the
    schedule only calls when the configuration names it; and the weight decay of a parameter
    group is written by the scheduler (decay x wd_mult), which is why one is built even for a
    constant rate: without it one-dimensional parameters would be decayed too.
    """
    training = spec.training
    ddp = DistributedDataParallel(
        model.config,
        DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=False
        ),
        model,
    )
    model.config.finalize_model_grads_func = finalize_model_grads
    model.config.no_sync_func = ddp.no_sync
    # Unused gloo twins of the groups are neither made (`parallel`) nor asked for here.
    optimizer = get_megatron_optimizer(
        configs.optimizer(spec), [ddp], use_gloo_process_groups=False
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
    ddp.train()
    return Parts(ddp, optimizer, scheduler)
