"""Where stock transformers classes keep more, or less, for their backward pass than most.

Read from the classes of transformers 5.24 and checked against what autograd saves, by
`torch.autograd.graph.saved_tensors_hooks` (tests/plan/test_kept.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Habits:
    """How a class computes its layers, as far as memory depends on it.

    norm: ``rms`` (input in fp32, normalised value in the compute dtype), ``fp32`` (both in fp32)
    or ``layer`` (torch's layer norm: the input as it is); silent_norms: norms of the residual
    width whose result no projection keeps, because they stand after the block; router_fp32: the
    router reads the hidden state in fp32; expert_widths: widths of an expert that each row keeps;
    one_projection: query, key and value are views of one projection's result.
    """

    norm: str = "rms"
    silent_norms: int = 0
    router_fp32: bool = False
    expert_widths: int | None = None
    one_projection: bool = False

    def norm_kept(self, width: float, dtype_bytes: int) -> float:
        """Bytes a token that a norm keeps itself, without its result."""
        first, second = {
            "rms": (4, dtype_bytes),
            "fp32": (4, 4),
            "layer": (dtype_bytes, 0),
        }[self.norm]
        return width * (first + second)


COMMON = Habits()
_FP32_ROUTER = Habits(router_fp32=True)
_FP32_NORM = Habits(norm="fp32")
# By transformers' model type.
HABITS = {
    "deepseek_v2": _FP32_ROUTER,
    "deepseek_v3": _FP32_ROUTER,
    "deepseek_v32": _FP32_ROUTER,
    "ernie4_5_moe": _FP32_ROUTER,
    "gemma": _FP32_NORM,
    "gemma2": Habits(norm="fp32", silent_norms=2),
    "glm4_moe": _FP32_ROUTER,
    "glm_moe_dsa": _FP32_ROUTER,
    "gpt_oss": Habits(norm="fp32", expert_widths=7),
    "longcat_flash": _FP32_ROUTER,
    "phi3": Habits(one_projection=True),
    "phimoe": Habits(norm="layer"),
    "qwen3_5_moe_text": _FP32_NORM,
    "qwen3_5_text": _FP32_NORM,
    "qwen3_next": _FP32_NORM,
}


def habits_of(model_type: str | None) -> Habits:
    """The habits of a class; those of most classes where the table says nothing."""
    return HABITS.get(model_type or "", COMMON)
