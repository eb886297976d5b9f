"""Megatron's configurations, from the run spec.

Everything a CPU can be given by configuration is given here, so that `cpu` patches only what is
left. No fusion is asked for: they need Apex or Transformer Engine, and the reference should be
the plain formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from megatron.core.optimizer import OptimizerConfig
from megatron.core.transformer import TransformerConfig
from torch.nn import functional

from runner.backends.mcore import families, layouts

if TYPE_CHECKING:
    from certify.runspec import RunSpec


def transformer(spec: RunSpec) -> TransformerConfig:
    """Megatron's model configuration. aux_loss_coef comes from the training section."""
    hf = spec.model.hf_config
    found = families.family(hf)
    training = spec.training
    return TransformerConfig(
        num_layers=hf["num_hidden_layers"],
        hidden_size=hf["hidden_size"],
        num_attention_heads=hf["num_attention_heads"],
        num_query_groups=families.query_groups(hf),
        kv_channels=families.head_dim(hf),
        ffn_hidden_size=hf["intermediate_size"],
        normalization="RMSNorm",
        layernorm_epsilon=hf["rms_norm_eps"],
        qk_layernorm=found.qk_norm,
        add_bias_linear=False,
        add_qkv_bias=found.qkv_bias,
        gated_linear_unit=True,
        activation_func=functional.silu,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        params_dtype=torch.float32,
        deterministic_mode=spec.deterministic,
        # Left out, tensor-parallel attributes of the weights are never set and the gradient norm
        # counts some of them wrongly, silently. The values are overwritten by ours.
        perform_initialization=True,
        use_cpu_initialization=spec.device == "cpu",
        # Several micro-batches with unequal numbers of supervised tokens: divide once, by all of
        # them. With one micro-batch the plain rule is the same, and the auxiliary loss is then
        # not rescaled by positions / supervised tokens.
        calculate_per_token_loss=training.micro_batch != training.global_batch,
        persist_layer_norm=False,
        masked_softmax_fusion=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        apply_rope_fusion=False,
        gradient_accumulation_fusion=False,
        cross_entropy_loss_fusion=False,
        batch_p2p_comm=False,
        batch_p2p_sync=False,
        **_parallel(spec),
        **(_experts(spec) if found.moe else {}),
    )


def _parallel(spec: RunSpec) -> dict[str, Any]:
    """Sizes that Megatron's layers and schedules read; its groups are made in `parallel`."""
    p = spec.parallel
    values: dict[str, Any] = {
        "tensor_model_parallel_size": p.tp_size,
        "pipeline_model_parallel_size": p.pp_size,
        "expert_model_parallel_size": p.ep_size,
        "pipeline_dtype": torch.float32,
        "cuda_graph_scope": [],  # the default, "full", is deprecated and warns
    }
    if p.vpp_size > 1:
        values["virtual_pipeline_model_parallel_size"] = p.vpp_size
    if (last := layouts.last_stage_layers(spec)) is not None:
        values["num_layers_in_last_pipeline_stage"] = last
    if p.recompute == "full":
        values |= {
            "recompute_granularity": "full",
            "recompute_method": "uniform",
            "recompute_num_layers": 1,
        }
    return values


def _experts(spec: RunSpec) -> dict[str, Any]:
    hf = spec.model.hf_config
    return {
        "num_moe_experts": families.num_experts(hf),
        "moe_router_topk": hf["num_experts_per_tok"],
        "moe_ffn_hidden_size": hf["moe_intermediate_size"],
        "moe_layer_freq": [int(has) for has in families.moe_layers(hf)],
        # False: top-k of the logits, then a softmax over the chosen ones, which equals a softmax
        # over all whose chosen probabilities are normalised. True keeps them as they are.
        "moe_router_pre_softmax": not hf.get("norm_topk_prob", False),
        "moe_router_load_balancing_type": "aux_loss",
        "moe_aux_loss_coeff": spec.training.aux_loss_coef,
        "moe_token_dispatcher_type": spec.parallel.moe_dispatcher,
        "moe_grouped_gemm": False,
    }


def optimizer(spec: RunSpec) -> OptimizerConfig:
    """Megatron's optimizer configuration; the schedule overwrites rate and decay per step."""
    training = spec.training
    return OptimizerConfig(
        optimizer="adam",  # with decoupled weight decay, the default: AdamW
        lr=training.lr,
        min_lr=training.min_lr,
        weight_decay=training.weight_decay,
        adam_beta1=training.beta1,
        adam_beta2=training.beta2,
        adam_eps=training.eps,
        clip_grad=training.clip_grad,
        params_dtype=torch.float32,
        use_distributed_optimizer=spec.parallel.distributed_optimizer,
    )
