"""Which model types this backend maps: one file of data for each group of families."""

from __future__ import annotations

from runner.backends.mcore.mappings import dense, mla, moe, ssm
from runner.backends.mcore.mappings.rules import Family, Rule

__all__ = ["FAMILIES", "NOT_MAPPED", "Family", "Rule"]

FAMILIES: dict[str, Family] = {
    **dense.FAMILIES,
    **moe.FAMILIES,
    **mla.FAMILIES,
    **ssm.FAMILIES,
}

# Model types of published rows that have a class in transformers, and what megatron-core 0.16
# without Transformer Engine lacks for them.
NOT_MAPPED: dict[str, str] = {
    "deepseek_v32": "its sparse indexer (DSA) needs fused Hadamard and top-k kernels of a GPU",
    "deepseek_v4": "no layer of megatron-core 0.16 has its compressed attention",
    "glm_moe_dsa": "its sparse indexer (DSA) needs fused Hadamard and top-k kernels of a GPU",
    "gpt_oss": "its experts are published as one interleaved tensor with biases: not mapped yet",
    "longcat_flash": "megatron-core 0.16 has no layer of two attentions with a parallel expert"
    " block, and no experts without weights",
    "minicpm3": "its scaled residuals, embeddings and logits are not mapped yet",
    "phimoe": "megatron-core 0.16 has no sparse-mixer routing",
    "qwen3_next": "its gated delta net needs the kernels of flash-linear-attention",
}
