"""State-space models. Megatron's mixer needs mamba-ssm, which has no CPU form: only the mapping
is tested here, both ways, and no model is built from it."""

from __future__ import annotations

from runner.backends.mcore.mappings.rules import MCORE_LAYER, Family, Rule, of

_LAYER = "backbone.layers.{layer}."
_MIXER = _LAYER + "mixer."
_OURS = MCORE_LAYER + "mixer."
_PARTS = (
    "in_proj.weight",
    "conv1d.weight",
    "conv1d.bias",
    "A_log",
    "D",
    "dt_bias",
    "norm.weight",
    "out_proj.weight",
)

FAMILIES = {
    "mamba2": Family(
        "ssm",
        (
            Rule("embedding.word_embeddings.weight", ("backbone.embeddings.weight",)),
            Rule("decoder.final_norm.weight", ("backbone.norm_f.weight",)),
            Rule("output_layer.weight", ("lm_head.weight",), when="untied"),
            Rule(MCORE_LAYER + "norm.weight", of(_LAYER, ("norm",))),
            *(Rule(_OURS + part, (_MIXER + part,)) for part in _PARTS),
        ),
        runs=False,
    ),
}
