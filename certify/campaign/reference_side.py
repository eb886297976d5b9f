"""Which backend trains the reference of a campaign, and what a verdict against it may claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.recipes.scale.families import is_moe

if TYPE_CHECKING:
    from collections.abc import Mapping

# Model types that our Megatron-Core mapping builds (`runner.backends.mcore.families`; a test holds
# the two equal), and the values of their configurations that it knows.
MCORE_FAMILIES = ("llama", "qwen2", "qwen3", "qwen3_moe")
_MCORE_VALUES: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", None),
    "use_sliding_window": (False, None),
    "mlp_bias": (False, None),
    "rope_scaling": (None,),
}

PLAIN_CLAIM = (
    "the reference is the same stock class of transformers in our plain loop on one process: a "
    "pass speaks of distribution, loop, optimizer, schedule, data and checkpoint; a fault inside "
    "the class cannot show"
)


def mcore_builds(hf_config: Mapping[str, Any]) -> bool:
    """Whether a Megatron-Core mapping of the model exists."""
    rotary = hf_config.get("rope_parameters") or {}
    return (
        hf_config.get("model_type") in MCORE_FAMILIES
        and all(hf_config.get(key) in accepted for key, accepted in _MCORE_VALUES.items())
        and rotary.get("rope_type", "default") == "default"
        and not (hf_config.get("attention_bias") and hf_config.get("model_type") != "qwen2")
    )


def reference_backend(
    hf_config: Mapping[str, Any], candidate: str = "fsdp2", aux_loss_formula: str = "megatron"
) -> str:
    """The backend that trains the reference of a candidate's.

    Of fsdp2: ``mcore`` where a mapping of the model exists, else ``plain``. Of mcore: ``plain``,
    the stock class of transformers, which shares no model and no optimizer code with it.
    Megatron-Core has no auxiliary loss that pools the layers: there, too, it is ``plain``.
    """
    own_formula = is_moe(hf_config) and aux_loss_formula == "pooled"
    return (
        "mcore" if candidate == "fsdp2" and mcore_builds(hf_config) and not own_formula else "plain"
    )


def one_class(candidate: str, reference: str) -> bool:
    """Whether both sides train the same model class, so that `PLAIN_CLAIM` must be said."""
    return (candidate, reference) == ("fsdp2", "plain")
