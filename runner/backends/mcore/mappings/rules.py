"""The words that mapping files are written in: rules, families, and rules that many families share.

A mapping file is data: no file of this folder but this one holds a function. ``{layer}`` and
``{expert}`` in names are expanded by `runner.backends.mcore.mapping`. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Rule:
    """One Megatron tensor. hf: the published tensors that it holds; layout: how they are joined
    (`mapping.LAYOUTS`); when: a word of `families.words`, a layer kind (``dense`` or ``moe``) or
    empty for always; buffer: not a parameter, but a buffer that checkpoints hold."""

    mcore: str
    hf: tuple[str, ...]
    layout: str = "same"
    when: str = ""
    buffer: bool = False


@dataclass(frozen=True)
class Family:
    """One model type.

    group: the mapping file; rules: of all its tensors; defaults: what the published configuration
    may leave out, as transformers fills it in; qk_norm: norms of queries and keys (``head``: each
    head by itself, ``whole``: all heads together, or the key of the configuration that says
    so for ``head``); qkv_bias: True, False or the key that says so; moe: routed experts; scores:
    ``softmax``, or ``sigmoid`` with a choice bias; group_best: how many experts of a group make
    its score; zero_centred: norms multiply by 1 + weight; scaled_embedding: embeddings times the
    root of the width; post_norms: a norm after attention and after the MLP too; interleaved:
    rotary pairs are neighbours; latent: multi-latent attention; activations: accepted ones.
    """

    group: str
    rules: tuple[Rule, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    qk_norm: str = ""
    qkv_bias: bool | str = False
    moe: bool = False
    scores: str = "softmax"
    group_best: int = 2
    zero_centred: bool = False
    scaled_embedding: bool = False
    post_norms: bool = False
    interleaved: bool = False
    latent: bool = False
    activations: tuple[str, ...] = ("silu",)
    runs: bool = True


LAYER = "model.layers.{layer}."
ATTENTION = LAYER + "self_attn."
MLP = LAYER + "mlp."
QKV = ("q_proj", "k_proj", "v_proj")
MCORE_LAYER = "decoder.layers.{layer}."
MCORE_ATTENTION = MCORE_LAYER + "self_attention."
MCORE_MLP = MCORE_LAYER + "mlp."
MCORE_EXPERT = MCORE_MLP + "experts.local_experts.{expert}."


def of(prefix: str, names: tuple[str, ...], suffix: str = ".weight") -> tuple[str, ...]:
    """Full names of several tensors of one module."""
    return tuple(prefix + name + suffix for name in names)


ENDS: tuple[Rule, ...] = (
    Rule("embedding.word_embeddings.weight", ("model.embed_tokens.weight",)),
    Rule("decoder.final_layernorm.weight", ("model.norm.weight",)),
    Rule("output_layer.weight", ("lm_head.weight",), when="untied"),
)
NORMS: tuple[Rule, ...] = (
    Rule(MCORE_LAYER + "input_layernorm.weight", (LAYER + "input_layernorm.weight",)),
    Rule(MCORE_LAYER + "pre_mlp_layernorm.weight", (LAYER + "post_attention_layernorm.weight",)),
)
OUT: tuple[Rule, ...] = (Rule(MCORE_ATTENTION + "linear_proj.weight", of(ATTENTION, ("o_proj",))),)
HEADS: tuple[Rule, ...] = (
    Rule(MCORE_ATTENTION + "linear_qkv.weight", of(ATTENTION, QKV), "qkv"),
    Rule(MCORE_ATTENTION + "linear_qkv.bias", of(ATTENTION, QKV, ".bias"), "qkv", "qkv_bias"),
    *OUT,
    Rule(MCORE_ATTENTION + "q_layernorm.weight", of(ATTENTION, ("q_norm",)), when="qk_norm"),
    Rule(MCORE_ATTENTION + "k_layernorm.weight", of(ATTENTION, ("k_norm",)), when="qk_norm"),
)
DENSE_MLP: tuple[Rule, ...] = (
    Rule(MCORE_MLP + "linear_fc1.weight", of(MLP, ("gate_proj", "up_proj")), "stack", "dense"),
    Rule(MCORE_MLP + "linear_fc2.weight", of(MLP, ("down_proj",)), when="dense"),
)


def experts(prefix: str, gate: str, up: str, down: str) -> tuple[Rule, ...]:
    """Routed experts. prefix: of the router and of ``experts``; gate, up, down: their names."""
    each = prefix + "experts.{expert}."
    return (
        Rule(MCORE_MLP + "router.weight", of(prefix, ("gate",)), when="moe"),
        Rule(MCORE_EXPERT + "linear_fc1.weight", of(each, (gate, up)), "stack", "moe"),
        Rule(MCORE_EXPERT + "linear_fc2.weight", of(each, (down,)), when="moe"),
    )


def shared(prefix: str) -> tuple[Rule, ...]:
    """An expert that sees every token."""
    ours = MCORE_MLP + "shared_experts."
    return (
        Rule(ours + "linear_fc1.weight", of(prefix, ("gate_proj", "up_proj")), "stack", "shared"),
        Rule(ours + "linear_fc2.weight", of(prefix, ("down_proj",)), when="shared"),
    )


def choice_bias(published: str) -> tuple[Rule, ...]:
    """What a router adds to its scores to choose by, and trains by no gradient."""
    return (Rule(MCORE_MLP + "router.expert_bias", (published,), when="moe", buffer=True),)
