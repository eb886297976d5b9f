"""Megatron's layer specs, with the pieces that a family needs put in their places."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
    get_gpt_layer_local_spec,
)
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.torch_norm import WrappedTorchNorm

from runner.backends.mcore import families, pieces

if TYPE_CHECKING:
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer import TransformerConfig
    from torch import Tensor


def layers(hf: dict[str, Any], config: TransformerConfig, stage: int | None) -> Any:
    """The layers of this pipeline stage: Megatron's local ones where they suffice."""
    found = families.known(hf)
    if not (found.moe or found.latent or found.zero_centred or found.post_norms):
        return get_gpt_layer_local_spec(qk_layernorm=config.qk_layernorm, normalization="RMSNorm")
    where = {} if stage is None else {"vp_stage": stage}
    block = get_gpt_decoder_block_spec(
        config, use_transformer_engine=False, normalization="RMSNorm", **where
    )
    block.layer_specs = [_layer(copy.deepcopy(layer), hf) for layer in block.layer_specs]
    if found.zero_centred:
        block.layer_norm = pieces.ZeroCentredRMSNorm
    return block


def _layer(layer: ModuleSpec, hf: dict[str, Any]) -> ModuleSpec:
    found = families.known(hf)
    parts = layer.submodules
    attention = parts.self_attention.submodules
    norm: Any = WrappedTorchNorm
    if found.zero_centred:
        norm = pieces.ZeroCentredRMSNorm
        parts.input_layernorm = parts.pre_mlp_layernorm = norm
    if found.qk_norm == "whole":
        attention.q_layernorm = pieces.WholeQueryNorm
        attention.k_layernorm = pieces.WholeKeyNorm
    if found.post_norms:
        normed = ModuleSpec(module=pieces.NormedRowParallelLinear, params={"norm": norm})
        attention.linear_proj = parts.mlp.submodules.linear_fc2 = normed
    if found.latent:
        attention.core_attention = pieces.LatentDotProductAttention
    if (cap := families.value(hf, "attn_logit_softcapping")) is not None:
        attention.core_attention = ModuleSpec(
            module=pieces.CappedDotProductAttention, params={"cap": float(cap)}
        )
    return layer


def finish(model: GPTModel, hf: dict[str, Any]) -> None:
    """What a built model needs besides layers: scaled embeddings, capped logits, groups."""
    found = families.known(hf)
    if found.scaled_embedding and model.pre_process:
        scale = float(hf["hidden_size"]) ** 0.5
        model.embedding.register_forward_hook(lambda _, __, output: output * scale)
    cap = families.value(hf, "final_logit_softcapping")
    if cap is not None and model.post_process:
        model.output_layer.register_forward_hook(lambda _, __, output: _capped(output, float(cap)))
    if families.groups(hf)[0] > 1:
        for module in model.modules():
            if isinstance(module, TopKRouter):
                module.router_replay = pieces.GroupChoice(found.group_best)


def _capped(output: tuple[Tensor, Any], cap: float) -> tuple[Tensor, Any]:
    logits, bias = output
    return cap * (logits / cap).tanh(), bias
