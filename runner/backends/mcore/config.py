"""Megatron's configurations, from the run spec.

Everything a CPU can be given by configuration is given here, so that `cpu` patches only what is
left. No fusion is asked for: they need Apex or Transformer Engine, and the reference should be
the plain formula.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from megatron.core.optimizer import OptimizerConfig
from megatron.core.transformer import MLATransformerConfig, TransformerConfig
from torch.nn import functional

from runner.backends.mcore import families, layouts

if TYPE_CHECKING:
    from certify.runspec import RunSpec


_ACTIVATIONS = {
    "silu": functional.silu,
    "gelu_pytorch_tanh": functools.partial(functional.gelu, approximate="tanh"),
}


def transformer(spec: RunSpec) -> TransformerConfig:
    """Megatron's model configuration. aux_loss_coef comes from the training section."""
    hf = spec.model.hf_config
    found = families.require_runs(hf)
    training = spec.training
    kind = MLATransformerConfig if found.latent else TransformerConfig
    return kind(
        num_layers=hf["num_hidden_layers"],
        hidden_size=hf["hidden_size"],
        num_attention_heads=hf["num_attention_heads"],
        num_query_groups=families.query_groups(hf),
        kv_channels=families.head_dim(hf),
        ffn_hidden_size=hf["intermediate_size"],
        normalization="RMSNorm",
        layernorm_epsilon=families.value(hf, "rms_norm_eps"),
        qk_layernorm=found.latent or families.has_qk_norm(hf),
        add_bias_linear=False,
        add_qkv_bias=families.has_qkv_bias(hf),
        gated_linear_unit=True,
        activation_func=_ACTIVATIONS[found.activations[0]],
        rotary_interleaved=found.interleaved,
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
        **_attention(hf),
        **(_experts(spec) if found.moe else {}),
    )


def _attention(hf: dict[str, Any]) -> dict[str, Any]:
    """Scale and window of the scores, and what latent attention is made of."""
    values: dict[str, Any] = {}
    if (scalar := families.value(hf, "query_pre_attn_scalar")) is not None:
        values["softmax_scale"] = float(scalar) ** -0.5
    if (window := families.windows(hf)) is not None:
        # Megatron counts positions before the query, transformers the query too.
        values |= {"window_size": (window[0] - 1, 0)}
        values |= {"window_attn_skip_freq": [int(limited) for limited in window[1]]}
    if not families.known(hf).latent:
        return values
    rope = families.rope(hf)
    values |= {
        "multi_latent_attention": True,
        "q_lora_rank": hf.get("q_lora_rank"),
        "kv_lora_rank": hf["kv_lora_rank"],
        "qk_head_dim": hf["qk_nope_head_dim"],
        "qk_pos_emb_head_dim": hf["qk_rope_head_dim"],
        "v_head_dim": hf["v_head_dim"],
        "rotary_base": rope["rope_theta"],
        "rope_type": "rope",
        "rotary_scaling_factor": 1.0,
    }
    if rope["rope_type"] == "yarn":
        values |= {
            "rope_type": "yarn",
            "rotary_scaling_factor": float(rope["factor"]),
            "original_max_position_embeddings": int(rope["original_max_position_embeddings"]),
            "beta_fast": float(rope.get("beta_fast") or 32),
            "beta_slow": float(rope.get("beta_slow") or 1),
            "mscale": float(rope.get("mscale") or 1.0),
            "mscale_all_dim": float(rope.get("mscale_all_dim") or 0.0),
        }
    return values


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
    found = families.known(hf)
    values: dict[str, Any] = {
        "num_moe_experts": families.num_experts(hf),
        "moe_router_topk": hf["num_experts_per_tok"],
        "moe_ffn_hidden_size": families.expert_width(hf),
        "moe_layer_freq": [int(has) for has in families.moe_layers(hf)],
        # False: top-k of the logits, then a softmax over the chosen ones, which equals a softmax
        # over all whose chosen probabilities are normalised. True keeps them as they are.
        "moe_router_pre_softmax": not families.value(hf, "norm_topk_prob"),
        "moe_router_score_function": found.scores,
        "moe_router_load_balancing_type": "aux_loss",
        "moe_aux_loss_coeff": spec.training.aux_loss_coef,
        "moe_token_dispatcher_type": spec.parallel.moe_dispatcher,
        "moe_grouped_gemm": False,
    }
    if found.scores == "sigmoid":
        # The bias by which experts are chosen is part of the checkpoint; nothing updates it here.
        values |= {"moe_router_enable_expert_bias": True, "moe_router_bias_update_rate": 0.0}
        values["moe_router_pre_softmax"] = False
    if (factor := families.value(hf, "routed_scaling_factor")) is not None:
        values["moe_router_topk_scaling_factor"] = float(factor)
    if width := families.shared_width(hf):
        values["moe_shared_expert_intermediate_size"] = width
        gate = any("gate_weight" in rule.mcore for rule in found.rules)
        values["moe_shared_expert_gate"] = gate
    count, top = families.groups(hf)
    if count > 1:
        values |= {"moe_router_num_groups": count, "moe_router_group_topk": top}
    return values


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
