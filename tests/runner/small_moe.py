"""The configuration of a mixture of experts small enough to be built in no time."""

from __future__ import annotations

from typing import Any

HF_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "max_position_embeddings": 64,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-6,
    "initializer_range": 0.2,
    "router_aux_loss_coef": 0.001,
    "tie_word_embeddings": False,
}
